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
func (s *Server) answer(q *question, d *engine.Decision) *rlsv3.RateLimitResponse {
	r := newRoom(len(d.Sets))
	r.reply.OverallCode, r.reply.Statuses, r.reply.DynamicMetadata = code(d.Verdict), r.statuses(d), r.told.dynamicMetadata(d)
	if d.Verdict != rules.Allow {
		s.refuse(r, q.single(d, d.Refuser))
	} else if s.options.SendHeaders {
		told := q.single(d, telling(d))
		r.reply.ResponseHeadersToAdd = r.headers.values(told.ClientHeaders(nil, s.options.Presentation))
	}
	return &r.reply
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
func (s *Server) refuse(r *room, told *engine.Decision) {
	var buffer [12]rules.Header
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

	headers := append(buffer[:0], result.Headers...)
	if s.options.SendHeaders {
		headers = told.ClientHeaders(buffer[:0], s.options.Presentation)
	}
	headers = append(headers, rules.Header{Name: "Content-Type", Value: refusal.ContentType})
	r.reply.ResponseHeadersToAdd = r.headers.values(headers)
	r.reply.RawBody = refusal.Body
}

// single is the decision about one of the descriptors, as a decision of its
// own. Its refusal is not kept for another call, since the reply holds it.
func (q *question) single(d *engine.Decision, i int) *engine.Decision {
	q.told = [1]engine.Answer{d.Sets[i]}
	q.alone = engine.Decision{Verdict: d.Sets[i].Verdict, Refuser: -1, Sets: q.told[:], Degraded: d.Degraded}
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

// standing is the status of a descriptor, its four messages in one piece.
type standing struct {
	status     rlsv3.RateLimitResponse_DescriptorStatus
	limit      rlsv3.RateLimitResponse_RateLimit
	multiplier wrapperspb.UInt32Value
	reset      durationpb.Duration
	nameEnd    int // of limit.Name in the names of all; 0 without a limit
}

// room is a reply in one piece. It has room for the statuses of its
// descriptors where there are few of them: most calls have one, some have four.
type room struct {
	reply   rlsv3.RateLimitResponse
	told    metadataRoom
	headers headerRoom
	made    []standing
	list    []*rlsv3.RateLimitResponse_DescriptorStatus
}

func newRoom(descriptors int) *room {
	switch {
	case descriptors == 1:
		r := new(struct {
			room
			made [1]standing
			list [1]*rlsv3.RateLimitResponse_DescriptorStatus
		})
		r.room.made, r.room.list = r.made[:], r.list[:]
		return &r.room
	case descriptors <= 4:
		r := new(struct {
			room
			made [4]standing
			list [4]*rlsv3.RateLimitResponse_DescriptorStatus
		})
		r.room.made, r.room.list = r.made[:descriptors], r.list[:descriptors]
		return &r.room
	}
	return &room{
		made: make([]standing, descriptors),
		list: make([]*rlsv3.RateLimitResponse_DescriptorStatus, descriptors),
	}
}

// statuses are the descriptors' own answers.
func (r *room) statuses(d *engine.Decision) []*rlsv3.RateLimitResponse_DescriptorStatus {
	var buffer [128]byte
	names := buffer[:0]
	for i := range d.Sets {
		a, s := &d.Sets[i], &r.made[i]
		r.list[i] = &s.status
		s.status.Code = code(a.Verdict)
		if !a.TellsQuota() {
			continue
		}
		names = appendLimitName(names, &a.Quota)
		s.nameEnd = len(names)
		s.limit.RequestsPerUnit = clamp(a.Quota.Limit)
		s.limit.Unit, s.multiplier.Value = window(a.Quota.Window)
		s.limit.UnitMultiplier = &s.multiplier
		s.status.CurrentLimit = &s.limit
		s.status.LimitRemaining = clamp(a.Quota.Remaining)
		// Envoy cuts fractions off, and a client would come back too early.
		s.reset.Seconds = engine.Seconds(a.Quota.Reset)
		s.status.DurationUntilReset = &s.reset
	}
	r.name(string(names))
	return r.list
}

// name gives the limits their names, which are parts of one text.
func (r *room) name(all string) {
	from := 0
	for i := range r.made {
		if s := &r.made[i]; s.nameEnd > 0 {
			s.limit.Name, from = all[from:s.nameEnd], s.nameEnd
		}
	}
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

// headerRoom is room for as many headers as most refusals have.
type headerRoom struct {
	made [2]corev3.HeaderValue
	list [2]*corev3.HeaderValue
}

// values are headers in Envoy's form, safe to send.
func (r *headerRoom) values(list []rules.Header) []*corev3.HeaderValue {
	list = engine.Sendable(list)
	made, values := r.made[:], r.list[:]
	if len(list) > len(made) {
		made, values = make([]corev3.HeaderValue, len(list)), make([]*corev3.HeaderValue, len(list))
	}
	for i, h := range list {
		made[i].Key, made[i].Value = h.Name, h.Value
		values[i] = &made[i]
	}
	return values[:len(list):len(list)]
}
