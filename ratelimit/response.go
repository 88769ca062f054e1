package ratelimit

import (
	"math"
	"net/http"
	"strconv"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/rules"
)

// appendAnswer puts a decision into Envoy's words: one status for each
// descriptor, in order, and the overall code, which alone decides at Envoy. It
// appends a RateLimitResponse as it travels: the generated messages would be a
// dozen for four descriptors, to be gone through and dropped.
func (s *Server) appendAnswer(b []byte, q *question, d *engine.Decision) []byte {
	b = appendNumber(b, replyCode, uint64(code(d.Verdict)))
	for i := range d.Sets {
		b = appendStatus(b, &d.Sets[i])
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
	result := told.Sets[0].Result
	refusal := told.Refusal()
	if refusal.Status != http.StatusTooManyRequests {
		// Envoy answers 429 unless its configuration says otherwise, whatever
		// the entry says; a body that names a status must name that one.
		seen := *result
		seen.HTTPStatus = http.StatusTooManyRequests
		told.Sets[0].Result = &seen
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
	return appendMessage(b, replyBody, refusal.Body)
}

// single is the decision about one of the descriptors, as a decision of its
// own. It holds until the next, and what its Refusal needs is kept for that.
func (q *question) single(d *engine.Decision, i int) *engine.Decision {
	q.told = [1]engine.Answer{d.Sets[i]}
	q.alone.Verdict, q.alone.Refuser = d.Sets[i].Verdict, -1
	q.alone.Sets, q.alone.Degraded = q.told[:], d.Degraded
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
	for i := range d.Sets {
		if d.Sets[i].Limited && (least < 0 || d.Sets[i].Quota.Remaining < d.Sets[least].Quota.Remaining) {
			least = i
		}
	}
	return max(least, 0)
}

// appendStatus appends a descriptor's own answer.
func appendStatus(b []byte, a *engine.Answer) []byte {
	var room [96]byte // a limit and three numbers fit
	status := appendNumber(room[:0], statusCode, uint64(code(a.Verdict)))
	if a.TellsQuota() {
		status = appendLimit(status, &a.Quota)
		status = appendNumber(status, statusRemaining, uint64(clamp(a.Quota.Remaining)))
		var seconds [16]byte
		// Envoy cuts fractions off, and a client would come back too early.
		reset := appendNumber(seconds[:0], durationSeconds, uint64(engine.Seconds(a.Quota.Reset)))
		status = appendMessage(status, statusReset, reset)
	}
	return appendMessage(b, replyStatuses, status)
}

func appendLimit(b []byte, q *engine.Quota) []byte {
	var room [64]byte // a name of twenty digits and three numbers fit
	var digits, number [20]byte
	unit, multiplier := window(q.Window)
	limit := appendNumber(room[:0], limitRequests, uint64(clamp(q.Limit)))
	limit = appendNumber(limit, limitUnit, uint64(unit))
	limit = appendMessage(limit, limitName, appendLimitName(digits[:0], q))
	limit = appendMessage(limit, limitMultiplier, appendNumber(number[:0], wrapperValue, uint64(multiplier)))
	return appendMessage(b, statusLimit, limit)
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
	var room [128]byte
	for _, h := range engine.Sendable(list) {
		header := appendText(appendText(room[:0], headerKey, h.Name), headerValue, h.Value)
		b = appendMessage(b, replyHeaders, header)
	}
	return b
}
