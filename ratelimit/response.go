package ratelimit

import (
	"math"
	"net/http"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/rules"
)

// answer puts a decision into Envoy's words: one status for each descriptor,
// in order, and the overall code, which alone decides at Envoy.
func (s *Server) answer(d *engine.Decision) *rlsv3.RateLimitResponse {
	r := new(room)
	reply := &r.reply
	reply.OverallCode, reply.Statuses, reply.DynamicMetadata = code(d.Verdict), r.statuses(d), dynamicMetadata(d)
	if d.Verdict != rules.Allow {
		s.refuse(reply, d)
	} else if s.options.SendHeaders {
		told := single(d, telling(d))
		reply.ResponseHeadersToAdd = headerValues(told.ClientHeaders(nil, s.options.Presentation))
	}
	return reply
}

// code is OVER_LIMIT for whatever does not allow: the status that the client
// sees is Envoy's to set.
func code(v rules.Verdict) rlsv3.RateLimitResponse_Code {
	if v == rules.Allow {
		return rlsv3.RateLimitResponse_OK
	}
	return rlsv3.RateLimitResponse_OVER_LIMIT
}

// refuse adds what the client gets in place of what it asked for.
func (s *Server) refuse(reply *rlsv3.RateLimitResponse, d *engine.Decision) {
	told := single(d, d.Refuser)
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

	headers := append([]rules.Header(nil), result.Headers...)
	if s.options.SendHeaders {
		headers = told.ClientHeaders(nil, s.options.Presentation)
	}
	headers = append(headers, rules.Header{Name: "Content-Type", Value: refusal.ContentType})
	reply.ResponseHeadersToAdd = headerValues(headers)
	reply.RawBody = refusal.Body
}

// single is the decision about one of the descriptors, as a decision of its
// own.
func single(d *engine.Decision, i int) *engine.Decision {
	one := &engine.Decision{Verdict: d.Sets[i].Verdict, Refuser: -1, Sets: []engine.Answer{d.Sets[i]}, Degraded: d.Degraded}
	if one.Verdict != rules.Allow {
		one.Refuser = 0
	}
	return one
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

// standing is the status of a descriptor, its four messages in one piece.
type standing struct {
	status     rlsv3.RateLimitResponse_DescriptorStatus
	limit      rlsv3.RateLimitResponse_RateLimit
	multiplier wrapperspb.UInt32Value
	reset      durationpb.Duration
}

// room is a reply in one piece, as far as it has one descriptor: most have.
type room struct {
	reply rlsv3.RateLimitResponse
	made  [1]standing
	list  [1]*rlsv3.RateLimitResponse_DescriptorStatus
}

// statuses are the descriptors' own answers.
func (r *room) statuses(d *engine.Decision) []*rlsv3.RateLimitResponse_DescriptorStatus {
	made, list := r.made[:], r.list[:]
	if n := len(d.Sets); n > 1 {
		made, list = make([]standing, n), make([]*rlsv3.RateLimitResponse_DescriptorStatus, n)
	}
	for i := range d.Sets {
		a, s := &d.Sets[i], &made[i]
		list[i] = &s.status
		s.status.Code = code(a.Verdict)
		if !a.TellsQuota() {
			continue
		}
		s.limit.Name = limitName(&a.Quota)
		s.limit.RequestsPerUnit = clamp(a.Quota.Limit)
		s.limit.Unit, s.multiplier.Value = window(a.Quota.Window)
		s.limit.UnitMultiplier = &s.multiplier
		s.status.CurrentLimit = &s.limit
		s.status.LimitRemaining = clamp(a.Quota.Remaining)
		// Envoy cuts fractions off, and a client would come back too early.
		s.reset.Seconds = engine.Seconds(a.Quota.Reset)
		s.status.DurationUntilReset = &s.reset
	}
	return list
}

// limitName is the rule's number, which cannot hold the quote that would
// break Envoy's x-ratelimit-limit.
func limitName(q *engine.Quota) string {
	if q.Rule == nil {
		return q.PolicyName()
	}
	return strconv.FormatInt(q.Rule.Return, 10)
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

// headerValues are headers in Envoy's form, safe to send.
func headerValues(list []rules.Header) []*corev3.HeaderValue {
	list = engine.Sendable(list)
	made := make([]corev3.HeaderValue, len(list))
	values := make([]*corev3.HeaderValue, len(list))
	for i, h := range list {
		made[i].Key, made[i].Value = h.Name, h.Value
		values[i] = &made[i]
	}
	return values
}
