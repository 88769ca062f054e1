package extauthz

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"golang.org/x/net/http/httpguts"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/envoyapi"
	"github.com/koalagate/koalagate/internal/wire"
	"github.com/koalagate/koalagate/rules"
)

// The fields of a CheckResponse and of the messages in it:
// envoy/service/auth/v3/external_auth.proto, envoy/config/core/v3/base.proto,
// envoy/type/v3/http_status.proto and google/rpc/status.proto.
const (
	replyStatus   = 1
	replyDenied   = 2
	replyOK       = 3
	replyMetadata = 4
	replyError    = 5

	okHeaders       = 2
	okRemove        = 5
	okClientHeaders = 6

	deniedStatus  = 1
	deniedHeaders = 2
	deniedBody    = 3

	statusCode = 1 // of google.rpc.Status and of HttpStatus

	optionHeader = 1
	optionAction = 3
)

// appendAnswer appends the CheckResponse of a decision. It always sets both the
// status and the kind of response, and every text is UTF-8 whatever clients and rule
// files contain: Envoy takes a reply without them, and one that it cannot parse, for
// permission to pass.
func (s *Server) appendAnswer(b []byte, c *check, d *engine.Decision) []byte {
	switch {
	case d.Unavailable:
		// Envoy's failure mode decides. If it denies, the client receives a 503.
		b = appendRefusal(b, replyError, codes.Unavailable, d.Refusal(), nil)
		return appendVerdict(b, "unavailable")
	case d.Verdict == rules.Allow:
		b = s.appendAllowed(b, c, d)
	default:
		b = s.appendDenied(b, &c.message, d)
	}
	return wire.End(envoyapi.BeginDecision(b, replyMetadata, d, 0))
}

// appendAllowed allows the request, with headers of [forward] and on the decision for the
// upstream, and on the quota for the client.
func (s *Server) appendAllowed(b []byte, c *check, d *engine.Decision) []byte {
	var up, down [12]rules.Header
	upstream := s.gate.Forwarded(up[:0], &c.question)
	forwarded := len(upstream)
	upstream = d.ApplicationHeaders(d.DecisionHeaders(upstream))
	b = appendStatus(b, replyStatus, int(codes.OK))
	b, from := wire.Begin(b, replyOK)
	for i := range upstream {
		if upstream[i].Value != "" {
			b = appendHeaders(b, okHeaders, upstream[i:i+1])
		}
	}
	b = c.message.appendForged(b, upstream, upstream[:forwarded])
	b = appendHeaders(b, okClientHeaders, door.Sendable(d.ClientHeaders(down[:0], s.presentation)))
	return wire.End(b, from)
}

// appendDenied denies the request with the refusal for its client.
func (s *Server) appendDenied(b []byte, m *message, d *engine.Decision) []byte {
	var buffer [16]rules.Header
	headers := d.ClientHeaders(buffer[:0], s.presentation)
	refusal := d.Refusal()
	code := envoyapi.Code(refusal.Status)
	if own := d.Answers[d.Refuser].Result.GRPCStatus; own != 0 {
		code = codes.Code(own)
		if m.isGRPC() {
			// Envoy keeps an existing grpc-status; otherwise it derives one from
			// the HTTP status.
			headers = append(headers, rules.Header{Name: "grpc-status", Value: strconv.Itoa(own)})
		}
	}
	return appendRefusal(b, replyDenied, code, refusal, headers)
}

// appendFault denies a request that cannot be decided because of its contents.
func appendFault(b []byte, f door.Fault) []byte {
	b = appendRefusal(b, replyDenied, envoyapi.Code(f.Status), f.Refusal(), nil)
	return appendVerdict(b, "invalid")
}

// appendVerdict appends dynamic metadata that holds nothing but a verdict.
func appendVerdict(b []byte, verdict string) []byte {
	b, from := wire.Begin(b, replyMetadata)
	return wire.End(wire.AppendTextFact(b, "verdict", verdict), from)
}

// appendRefusal appends a response of a kind that refuses: the code, and the answer
// for the client. It modifies headers.
func appendRefusal(b []byte, kind protowire.Number, code codes.Code, r engine.Refusal, headers []rules.Header) []byte {
	r.Status = door.RefusalStatus(r.Status) // Envoy drops the connection on any other
	if door.HasBody(r.Status) {
		headers = append(headers, rules.Header{Name: "Content-Type", Value: r.ContentType})
	} else {
		r.Body = nil
	}
	if !utf8.Valid(r.Body) {
		r.Body = bytes.ToValidUTF8(r.Body, []byte("\uFFFD"))
	}
	b = appendStatus(b, replyStatus, int(code))
	b, from := wire.Begin(b, kind)
	b = appendStatus(b, deniedStatus, r.Status)
	b = appendHeaders(b, deniedHeaders, door.Sendable(headers))
	if len(r.Body) > 0 {
		b = wire.AppendBytes(b, deniedBody, r.Body)
	}
	return wire.End(b, from)
}

// appendStatus appends a status message, of gRPC or of HTTP.
func appendStatus(b []byte, field protowire.Number, code int) []byte {
	b, from := wire.Begin(b, field)
	return wire.End(wire.AppendNumber(b, statusCode, uint64(code)), from)
}

// appendHeaders appends headers as HeaderValueOption messages. All of them overwrite:
// APPEND would keep a client's value alongside ours.
func appendHeaders(b []byte, field protowire.Number, list []rules.Header) []byte {
	for _, h := range list {
		var option int
		b, option = wire.Begin(b, field)
		b = envoyapi.AppendHeader(b, optionHeader, h)
		b = wire.AppendNumber(b, optionAction, uint64(corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD))
		b = wire.End(b, option)
	}
	return b
}

// ownPrefix is the lower-case prefix of the headers by which the gateway informs the
// upstream.
const ownPrefix = "x-koala-"

// optional lists our headers that a decision need not have.
var optional = [...]string{engine.HeaderRule, engine.HeaderDegraded, engine.HeaderResult, engine.HeaderReceipt, engine.HeaderMark}

// appendForged appends the names of headers for Envoy to remove from the request:
// those with our prefix and other spellings of the forwarded ones that the client may have
// sent and that this answer does not set, so that the upstream does not take them for the
// gateway's. The optional headers and the forwarded ones without a value are removed even if
// the check does not show them, because Envoy's allowed_headers may hide them from us.
func (m *message) appendForged(b []byte, set, forwarded []rules.Header) []byte {
	isSet := func(name string) bool {
		return slices.ContainsFunc(set, func(h rules.Header) bool { return strings.EqualFold(h.Name, name) })
	}
	isForwarded := func(name string) bool {
		return slices.ContainsFunc(forwarded, func(h rules.Header) bool { return door.IsSpelling(h.Name, name) })
	}
	for i := range forwarded {
		if forwarded[i].Value == "" {
			b = wire.AppendText(b, okRemove, forwarded[i].Name)
		}
	}
	for _, name := range optional {
		if !isSet(name) {
			b = wire.AppendText(b, okRemove, name)
		}
	}
	isNamed := func(name string) bool {
		return slices.ContainsFunc(optional[:], func(n string) bool { return strings.EqualFold(n, name) })
	}
	for _, list := range [...][]rules.Header{m.headers, m.raw} {
		for i := range list {
			if name := list[i].Name; (isOwn(name) || isForwarded(name)) && httpguts.ValidHeaderFieldName(name) && !isSet(name) && !isNamed(name) {
				b = wire.AppendText(b, okRemove, name) // duplicates do no harm
			}
		}
	}
	return b
}

// isOwn reports whether a header name begins with our prefix. An underscore counts
// as a hyphen, because CGI applications cannot distinguish them.
func isOwn(name string) bool {
	if len(name) <= len(ownPrefix) {
		return false
	}
	for i := range len(ownPrefix) {
		c := name[i]
		switch {
		case c == '_':
			c = '-'
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		}
		if c != ownPrefix[i] {
			return false
		}
	}
	return true
}
