// Package httptext has what the rule language, the engine and the doors must read or write
// alike in the texts of HTTP: paths in segments, headers of the transport, identifiers of
// requests, and whole seconds.
package httptext

import (
	"slices"
	"strings"
	"time"
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

// maxRequestID is the maximum length of the identifier of a request, in bytes.
const maxRequestID = 128

// ValidRequestID reports whether an identifier is one that logs and refusals repeat: up
// to 128 letters, digits and the signs - _ . : / + = @ ~. It may have been chosen by a
// client.
func ValidRequestID(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("-_.:/+=@~", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// Seconds returns d in whole seconds, rounded up, so that a client that waits for
// that long has waited long enough.
func Seconds(d time.Duration) int64 {
	seconds := int64(d / time.Second)
	if d%time.Second > 0 {
		seconds++
	}
	return seconds
}
