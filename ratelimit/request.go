package ratelimit

import (
	"slices"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/mapping"
	"github.com/koalagate/koalagate/rules"
)

const (
	// maxDescriptors bounds a request, which is one step in the store and
	// holds up all others for as long as it takes.
	maxDescriptors = 1024
	// maxSeconds is the longest window of the rule language.
	maxSeconds = 31_622_400
)

// question is what one call needs on its way to the engine, kept for the
// next.
type question struct {
	request mapping.Request
	params  []rules.Params // one for each descriptor
	sets    []engine.Input
	call    engine.Call
	room    engine.Room
	alone   engine.Decision // about one of the sets
	told    [1]engine.Answer
	reply   []byte // in wire form
}

// read makes one parameter set of each descriptor. The generated validation
// is not asked: descriptors without entries, empty values and duplicates do
// occur, and mean something.
func (q *question) read(set *rules.Set, r *rlsv3.RateLimitRequest, o *mapping.Options) error {
	descriptors := r.GetDescriptors()
	// A door that lets faulty requests pass answers each descriptor too.
	q.sets = slices.Grow(q.sets, setCount(descriptors))[:setCount(descriptors)]
	switch {
	case r.GetDomain() == "":
		return invalid("the domain is empty; set `domain` in Envoy's filter")
	case len(descriptors) == 0:
		return invalid("there are no descriptors; want at least one")
	case len(descriptors) > maxDescriptors:
		return invalid("%d descriptors; want at most %d", len(descriptors), maxDescriptors)
	case r.GetHitsAddend() > engine.MaxHits:
		return invalid("hits_addend is %d; want at most %d", r.GetHitsAddend(), int64(engine.MaxHits))
	}
	for len(q.params) < len(descriptors) {
		q.params = append(q.params, rules.Params{})
	}
	for i, d := range descriptors {
		in, err := q.input(r, i)
		if err != nil {
			return err
		}
		q.readEntries(r.GetDomain(), d)
		if err := mapping.Params(set, &q.request, o, in.Params); err != nil {
			return invalid("descriptors[%d]: %v", i, err)
		}
		q.sets[i] = in
	}
	return nil
}

// setCount is how many parameter sets a request has, with a bound for one that
// is refused for having too many, or none.
func setCount(d []*ratelimitv3.RateLimitDescriptor) int { return min(max(len(d), 1), maxDescriptors) }

func (q *question) readEntries(domain string, d *ratelimitv3.RateLimitDescriptor) {
	entries := q.request.Entries[:0]
	for _, e := range d.GetEntries() {
		entries = append(entries, mapping.Entry{Key: e.GetKey(), Value: e.GetValue()})
	}
	q.request = mapping.Request{Door: mapping.RateLimit, Domain: domain, Entries: entries}
}

// input is what a descriptor weighs, and the limit that it brings.
func (q *question) input(r *rlsv3.RateLimitRequest, i int) (engine.Input, error) {
	d := r.GetDescriptors()[i]
	in := engine.Input{Params: &q.params[i], Hits: hits(r, d), Refund: d.GetIsNegativeHits()}
	if in.Hits > engine.MaxHits {
		return in, invalid("descriptors[%d]: hits_addend is %d; want at most %d", i, in.Hits, int64(engine.MaxHits))
	}
	if limit := d.GetLimit(); limit != nil {
		seconds := windowSeconds(limit)
		if seconds < 1 || seconds > maxSeconds {
			return in, invalid("descriptors[%d]: a limit of unit %v times %d; want a unit, and 1 … %d seconds",
				i, limit.GetUnit(), multiplier(limit), maxSeconds)
		}
		in.Override = &engine.Override{
			Count:   int64(limit.GetRequestsPerUnit()),
			Seconds: seconds,
			Entries: subject(r.GetDomain(), d),
		}
	}
	return in, nil
}

// hits is what a descriptor weighs. On the request 0 is unset and means 1; a
// descriptor's own is a wrapper, and its 0 looks without counting.
func hits(r *rlsv3.RateLimitRequest, d *ratelimitv3.RateLimitDescriptor) uint64 {
	if own := d.GetHitsAddend(); own != nil {
		return own.GetValue()
	}
	return max(1, uint64(r.GetHitsAddend()))
}

// windowSeconds is the window of a descriptor's own limit; 0 for a unit that
// is none. 86400 is the calendar day, however it came about (24 HOUR is 1
// DAY): in the rule language too the number alone says so.
func windowSeconds(limit *ratelimitv3.RateLimitDescriptor_RateLimitOverride) int64 {
	return unitSeconds[limit.GetUnit()] * multiplier(limit)
}

var unitSeconds = map[typev3.RateLimitUnit]int64{
	typev3.RateLimitUnit_SECOND: 1,
	typev3.RateLimitUnit_MINUTE: 60,
	typev3.RateLimitUnit_HOUR:   3600,
	typev3.RateLimitUnit_DAY:    rules.Day,
	typev3.RateLimitUnit_MONTH:  30 * rules.Day,
	typev3.RateLimitUnit_YEAR:   365 * rules.Day,
}

// multiplier is 1 where it is not said. 0 stays 0, and makes no window.
func multiplier(limit *ratelimitv3.RateLimitDescriptor_RateLimitOverride) int64 {
	if m := limit.GetUnitMultiplier(); m != nil {
		return int64(m.GetValue())
	}
	return 1
}

// subject is what a limit that meets no rule counts by: the entries as they
// came, within their domain, since domains never share a counter.
func subject(domain string, d *ratelimitv3.RateLimitDescriptor) []string {
	s := make([]string, 0, 1+2*len(d.GetEntries()))
	s = append(s, domain)
	for _, e := range d.GetEntries() {
		s = append(s, e.GetKey(), e.GetValue())
	}
	return s
}

// ask is the call that puts the question; fault is what is wrong with it.
func (q *question) ask(set *rules.Set, fault error) *engine.Call {
	q.call = engine.Call{Rules: set, Door: string(mapping.RateLimit), Op: engine.Take, Sets: q.sets, Fault: fault, Room: &q.room}
	return &q.call
}

// forget drops what q holds of a call and keeps the memory, unless the call
// was uncommonly large.
func (q *question) forget() {
	const common = 64
	const commonReply = 64 << 10
	if len(q.sets) > common || cap(q.request.Entries) > common || cap(q.reply) > commonReply {
		*q = question{}
		return
	}
	for i := range q.params {
		q.params[i].Reset()
	}
	clear(q.sets)
	clear(q.request.Entries[:cap(q.request.Entries)])
	q.sets = q.sets[:0]
	q.request = mapping.Request{Entries: q.request.Entries[:0]}
	q.call = engine.Call{}
}

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}
