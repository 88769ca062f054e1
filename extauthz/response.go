package extauthz

import (
	"bytes"
	"net/http"
	"strconv"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/wire"
	"github.com/koalagate/koalagate/rules"
)

// The fields of a CheckResponse and what is in it:
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

	statusCode = 1 // of both kinds

	optionHeader = 1
	optionAction = 3

	headerKey   = 1
	headerValue = 2
)

// appendAnswer puts a decision into Envoy's words. Status and the kind of response
// are always both set: Envoy takes a reply without them for leave to pass, and also
// one that it cannot read, so that every text is UTF-8, whatever clients and rule
// files say. It appends a CheckResponse as it travels: the generated messages would
// be several dozen, to be gone through and dropped.
func (s *Server) appendAnswer(b []byte, a *asked, d *engine.Decision) []byte {
	switch {
	case d.Unavailable:
		// The decision is left to Envoy's failure mode. Where that denies, the
		// client gets a 503.
		b = appendRefusal(b, replyError, codes.Unavailable, d.Refusal(), nil)
		return appendVerdict(b, "unavailable")
	case d.Verdict == rules.Allow:
		b = s.appendAllowed(b, a, d)
	default:
		b = s.appendDenied(b, a, d)
	}
	return appendMetadata(b, d)
}

// appendAllowed lets the request through: the upstream hears of the decision, the
// client of its quota.
func (s *Server) appendAllowed(b []byte, a *asked, d *engine.Decision) []byte {
	var up, down [12]rules.Header
	upstream := d.DecisionHeaders(up[:0])
	b = appendStatus(b, replyStatus, int(codes.OK))
	b, from := wire.Begin(b, replyOK)
	b = appendHeaders(b, okHeaders, upstream)
	b = a.appendForged(b, upstream)
	b = appendHeaders(b, okClientHeaders, engine.Sendable(d.ClientHeaders(down[:0], s.options.Presentation)))
	return wire.End(b, from)
}

// appendDenied refuses the request with what its client is to get.
func (s *Server) appendDenied(b []byte, a *asked, d *engine.Decision) []byte {
	var room [16]rules.Header
	headers := d.ClientHeaders(room[:0], s.options.Presentation)
	refusal := d.Refusal()
	code := grpcCode(refusal.Status)
	if own := d.Answers[d.Refuser].Result.GRPCStatus; own != 0 {
		code = codes.Code(own)
		if a.isGRPC() {
			// Envoy keeps a grpc-status that is there, and else makes one of the
			// HTTP status.
			headers = append(headers, rules.Header{Name: "grpc-status", Value: strconv.Itoa(own)})
		}
	}
	return appendRefusal(b, replyDenied, code, refusal, headers)
}

// appendProblem refuses a request that cannot be decided.
func appendProblem(b []byte, status int, detail string) []byte {
	b = appendRefusal(b, replyDenied, grpcCode(status), engine.Problem(status, detail), nil)
	return appendVerdict(b, "invalid")
}

// appendRefusal appends an answer of that kind which refuses: the code, and what
// the client is to get. It changes headers.
func appendRefusal(b []byte, kind protowire.Number, code codes.Code, r engine.Refusal, headers []rules.Header) []byte {
	if r.Status < 200 || r.Status > 599 {
		r.Status = http.StatusForbidden // Envoy breaks the connection on others
	}
	if r.Status == http.StatusNoContent || r.Status == http.StatusNotModified {
		r.Body = nil
	} else {
		headers = append(headers, rules.Header{Name: "Content-Type", Value: r.ContentType})
	}
	if !utf8.Valid(r.Body) {
		r.Body = bytes.ToValidUTF8(r.Body, []byte("\uFFFD"))
	}
	b = appendStatus(b, replyStatus, int(code))
	b, from := wire.Begin(b, kind)
	b = appendStatus(b, deniedStatus, r.Status)
	b = appendHeaders(b, deniedHeaders, engine.Sendable(headers))
	if len(r.Body) > 0 {
		b = wire.AppendBytes(b, deniedBody, r.Body)
	}
	return wire.End(b, from)
}

// appendStatus appends a status of gRPC or HTTP.
func appendStatus(b []byte, field protowire.Number, code int) []byte {
	b, from := wire.Begin(b, field)
	return wire.End(wire.AppendNumber(b, statusCode, uint64(code)), from)
}

// grpcCode is the code of a refusal. Envoy only tells it from OK; other
// callers may read it.
func grpcCode(status int) codes.Code {
	switch status {
	case http.StatusBadRequest:
		return codes.InvalidArgument
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusTooManyRequests:
		return codes.ResourceExhausted
	}
	return codes.PermissionDenied
}
