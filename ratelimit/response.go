package ratelimit

import (
	"math"
	"net/http"
	"strconv"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/wire"
	"github.com/koalagate/koalagate/rules"
)

// The fields of a RateLimitResponse and what is in it:
// envoy/service/ratelimit/v3/rls.proto, envoy/config/core/v3/base.proto and
// google/protobuf/{duration,wrappers}.proto.
const (
	replyCode     = 1
	replyStatuses = 2
	replyHeaders  = 3
	replyBody     = 5
	replyMetadata = 6

	statusCode      = 1
	statusLimit     = 2
	statusRemaining = 3
	statusReset     = 4

	limitRequests   = 1
	limitUnit       = 2
	limitName       = 3
	limitMultiplier = 4

	headerKey   = 1
	headerValue = 2

	wrappedNumber = 1 // of a wrapper, and a Duration's seconds
)

// appendAnswer puts a decision into Envoy's words: one status for each
// descriptor, in order, and the overall code, which alone decides at Envoy. It
// appends a RateLimitResponse as it travels: the generated messages would be a
// dozen for four descriptors, to be gone through and dropped.
func (s *Server) appendAnswer(b []byte, q *question, d *engine.Decision) []byte {
	b = wire.AppendNumber(b, replyCode, uint64(code(d.Verdict)))
	for i := range d.Answers {
		b = appendStatus(b, &d.Answers[i])
	}
	if d.Verdict != rules.Allow {
		b = s.appendRefusal(b, q.single(d, d.Refuser))
	} else if s.options.SendHeaders {
		var room [12]rules.Header
		b = appendHeaders(b, q.single(d, telling(d)).ClientHeaders(room[:0], s.options.Presentation))
	}
	return appendMetadata(b, d)
}

// code is OVER_LIMIT for whatever does not allow: the status that the client
// sees is Envoy's to set.
func code(v rules.Verdict) rlsv3.RateLimitResponse_Code {
	if v == rules.Allow {
		return rlsv3.RateLimitResponse_OK
	}
	return rlsv3.RateLimitResponse_OVER_LIMIT
}

// appendRefusal appends what the client gets in place of what it asked for.
func (s *Server) appendRefusal(b []byte, told *engine.Decision) []byte {
	var room [12]rules.Header
	result := told.Answers[0].Result
	refusal := told.Refusal()
	if refusal.Status != http.StatusTooManyRequests {
		// Envoy answers 429 unless its configuration says otherwise, whatever
		// the entry says; a body that names a status must name that one.
		seen := *result
		seen.HTTPStatus = http.StatusTooManyRequests
		told.Answers[0].Result = &seen
		refusal = told.Refusal()
	}

	headers := append(room[:0], result.Headers...)
	if s.options.SendHeaders {
		headers = told.ClientHeaders(room[:0], s.options.Presentation)
	}
	b = appendHeaders(b, append(headers, rules.Header{Name: "Content-Type", Value: refusal.ContentType}))
	if len(refusal.Body) == 0 {
		return b
	}
	return wire.AppendBytes(b, replyBody, refusal.Body)
}

// single is the decision about one of the descriptors, as a decision of its
// own. It holds until the next, and what its Refusal needs is kept for that.
func (q *question) single(d *engine.Decision, i int) *engine.Decision {
	q.told = [1]engine.Answer{d.Answers[i]}
	q.alone.Verdict, q.alone.Refuser = d.Answers[i].Verdict, -1
	q.alone.Answers, q.alone.Degraded = q.told[:], d.Degraded
	if q.alone.Verdict != rules.Allow {
		q.alone.Refuser = 0
	}
	return &q.alone
}

// telling is the descriptor that the reply as a whole tells of: the one that
// is refused, else the one with the least remaining.
func telling(d *engine.Decision) int {
	if d.Refuser >= 0 {
		return d.Refuser
	}
	least := -1
	for i := range d.Answers {
		if d.Answers[i].Limited && (least < 0 || d.Answers[i].Quota.Remaining < d.Answers[least].Quota.Remaining) {
			least = i
		}
	}
	return max(least, 0)
}

// appendStatus appends a descriptor's own answer.
func appendStatus(b []byte, a *engine.Answer) []byte {
	b, from := wire.Begin(b, replyStatuses)
	b = wire.AppendNumber(b, statusCode, uint64(code(a.Verdict)))
	if a.TellsQuota() {
		b = appendLimit(b, &a.Quota)
		b = wire.AppendNumber(b, statusRemaining, uint64(clamp(a.Quota.Remaining)))
		// Envoy cuts fractions off, and a client would come back too early.
		b = appendWrapped(b, statusReset, uint64(engine.Seconds(a.Quota.Reset)))
	}
	return wire.End(b, from)
}

func appendLimit(b []byte, q *engine.Quota) []byte {
	var digits [20]byte
	unit, multiplier := window(q.Window)
	b, from := wire.Begin(b, statusLimit)
	b = wire.AppendNumber(b, limitRequests, uint64(clamp(q.Limit)))
	b = wire.AppendNumber(b, limitUnit, uint64(unit))
	b = wire.AppendBytes(b, limitName, appendLimitName(digits[:0], q))
	b = appendWrapped(b, limitMultiplier, uint64(multiplier))
	return wire.End(b, from)
}

// appendWrapped appends a message that is a number: a wrapper, or a Duration of
// whole seconds.
func appendWrapped(b []byte, field protowire.Number, n uint64) []byte {
	b, from := wire.Begin(b, field)
	return wire.End(wire.AppendNumber(b, wrappedNumber, n), from)
}

// appendLimitName appends the rule's number, which cannot hold the quote that
// would break Envoy's x-ratelimit-limit.
func appendLimitName(b []byte, q *engine.Quota) []byte {
	if q.Rule == nil {
		return append(b, q.PolicyName()...)
	}
	return strconv.AppendInt(b, q.Rule.Return, 10)
}

// window is a number of seconds in the largest unit that divides it.
func window(seconds int64) (rlsv3.RateLimitResponse_RateLimit_Unit, uint32) {
	switch {
	case seconds%rules.Day == 0:
		return rlsv3.RateLimitResponse_RateLimit_DAY, clamp(seconds / rules.Day)
	case seconds%3600 == 0:
		return rlsv3.RateLimitResponse_RateLimit_HOUR, clamp(seconds / 3600)
	case seconds%60 == 0:
		return rlsv3.RateLimitResponse_RateLimit_MINUTE, clamp(seconds / 60)
	}
	return rlsv3.RateLimitResponse_RateLimit_SECOND, clamp(seconds)
}

func clamp(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// appendHeaders appends headers that are safe to send. It changes list.
func appendHeaders(b []byte, list []rules.Header) []byte {
	for _, h := range engine.Sendable(list) {
		var from int
		b, from = wire.Begin(b, replyHeaders)
		b = wire.AppendText(wire.AppendText(b, headerKey, h.Name), headerValue, h.Value)
		b = wire.End(b, from)
	}
	return b
}
