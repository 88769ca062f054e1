// Package httptext has what the rule language and the doors must read alike in the texts of
// HTTP: paths in segments, and the headers of the transport.
package httptext

import (
	"slices"
	"strings"
)

var escapeSegment = strings.NewReplacer("%", "%25", "/", "%2F")

// JoinSegments joins decoded path segments with slashes. It escapes a slash inside a
// segment as %2F and a percent sign as %25, so that different segments give different
// texts.
func JoinSegments(segments []string) string {
	plain := true
	for _, s := range segments {
		plain = plain && !strings.ContainsAny(s, "%/")
	}
	if plain {
		return strings.Join(segments, "/")
	}
	escaped := make([]string, len(segments))
	for i, s := range segments {
		escaped[i] = escapeSegment.Replace(s)
	}
	return strings.Join(escaped, "/")
}

var reservedHeaders = []string{"Connection", "Content-Length", "Host", "Keep-Alive", "Proxy-Connection", "TE", "Trailer", "Transfer-Encoding", "Upgrade"}

// IsReservedHeader reports whether a header belongs to the transport, so that no
// result entry can set it: sending one would break the response, and Host is a
// header of requests (RFC 9110).
func IsReservedHeader(name string) bool {
	return slices.ContainsFunc(reservedHeaders, func(r string) bool { return len(r) == len(name) && strings.EqualFold(r, name) })
}
