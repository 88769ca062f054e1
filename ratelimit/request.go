package ratelimit

import (
	"slices"

	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/mapping"
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
	asked   asked
	request mapping.Request
	params  []rules.Params // one for each descriptor
	sets    []engine.Input
	call    engine.Call
	room    engine.Scratch
	alone   engine.Decision // about one of the sets
	told    [1]engine.Answer
	reply   []byte // in wire form
}

// UnmarshalBinary reads a RateLimitRequest in wire form.
func (q *question) UnmarshalBinary(wire []byte) error { return q.asked.read(wire) }

// read makes one parameter set of each descriptor. The generated validation
// is not asked: descriptors without entries, empty values and duplicates do
// occur, and mean something.
func (q *question) read(set *rules.Set, o *mapping.Options) error {
	a := &q.asked
	// A door that lets faulty requests pass answers each descriptor too, and one
	// that has none, or too many.
	count := min(max(a.count, 1), maxDescriptors)
	q.sets = slices.Grow(q.sets, count)[:count]
	switch {
	case a.domain == "":
		return invalid("the domain is empty; set `domain` in Envoy's filter")
	case a.count == 0:
		return invalid("there are no descriptors; want at least one")
	case a.count > maxDescriptors:
		return invalid("%d descriptors; want at most %d", a.count, maxDescriptors)
	case a.hits > engine.MaxHits:
		return invalid("hits_addend is %d; want at most %d", a.hits, int64(engine.MaxHits))
	}
	for len(q.params) < len(a.descriptors) {
		q.params = append(q.params, rules.Params{})
	}
	for i := range a.descriptors {
		in, err := q.input(i)
		if err != nil {
			return err
		}
		q.request = mapping.Request{Door: doorname.RateLimit, Domain: a.domain, Entries: a.entriesOf(i)}
		if err := mapping.Params(set, &q.request, o, in.Params); err != nil {
			return invalid("descriptors[%d]: %v", i, err)
		}
		q.sets[i] = in
	}
	return nil
}

// input is what a descriptor weighs, and the limit that it brings.
func (q *question) input(i int) (engine.Input, error) {
	d := &q.asked.descriptors[i]
	hits := q.asked.hitsOf(d)
	in := engine.Input{Params: &q.params[i], Hits: hits, NoHits: hits == 0, Refund: d.isNegative}
	if in.Hits > engine.MaxHits {
		return in, invalid("descriptors[%d]: hits_addend is %d; want at most %d", i, in.Hits, int64(engine.MaxHits))
	}
	if d.hasLimit {
		seconds := d.limit.seconds()
		if seconds < 1 || seconds > maxSeconds {
			return in, invalid("descriptors[%d]: a limit of unit %v times %d; want a unit, and 1 … %d seconds",
				i, d.limit.unit, d.limit.times(), maxSeconds)
		}
		in.Override = &engine.Override{
			Count:   int64(d.limit.requests),
			Seconds: seconds,
			Entries: q.asked.subject(i),
		}
	}
	return in, nil
}

// hitsOf is what a descriptor weighs. On the request 0 is unset and means 1; a
// descriptor's own is a wrapper, and its 0 looks without counting.
func (a *asked) hitsOf(d *descriptor) uint64 {
	if d.hasHits {
		return d.hits
	}
	return max(1, uint64(a.hits))
}

// seconds is the window of a descriptor's own limit; 0 for a unit that
// is none. 86400 is the calendar day, however it came about (24 HOUR is 1
// DAY): in the rule language too the number alone says so.
func (l *limit) seconds() int64 { return unitSeconds[l.unit] * l.times() }

var unitSeconds = map[typev3.RateLimitUnit]int64{
	typev3.RateLimitUnit_SECOND: 1,
	typev3.RateLimitUnit_MINUTE: 60,
	typev3.RateLimitUnit_HOUR:   3600,
	typev3.RateLimitUnit_DAY:    rules.Day,
	typev3.RateLimitUnit_MONTH:  30 * rules.Day,
	typev3.RateLimitUnit_YEAR:   365 * rules.Day,
}

// times is 1 where it is not said. 0 stays 0, and makes no window.
func (l *limit) times() int64 {
	if l.hasMultiplier {
		return int64(l.multiplier)
	}
	return 1
}

// subject is what a limit that meets no rule counts by: the entries as they
// came, within their domain, since domains never share a counter.
func (a *asked) subject(i int) []string {
	entries := a.entriesOf(i)
	s := make([]string, 0, 1+2*len(entries))
	s = append(s, a.domain)
	for _, e := range entries {
		s = append(s, e.Key, e.Value)
	}
	return s
}

// entriesOf are a descriptor's own.
func (a *asked) entriesOf(i int) []mapping.Entry {
	d := &a.descriptors[i]
	return a.entries[d.from:d.to:d.to]
}

// ask is the call that puts the question; fault is what is wrong with it.
func (q *question) ask(set *rules.Set, fault error) *engine.Call {
	q.call = engine.Call{Rules: set, Door: doorname.RateLimit, Op: engine.Take, Inputs: q.sets, Fault: fault, Scratch: &q.room}
	return &q.call
}

// forget drops what q holds of a call and keeps the memory, unless the call
// was uncommonly large.
func (q *question) forget() {
	const common = 64
	const commonReply = 64 << 10
	if len(q.sets) > common || cap(q.asked.entries) > common || cap(q.reply) > commonReply {
		*q = question{}
		return
	}
	for i := range q.params {
		q.params[i].Reset()
	}
	clear(q.sets)
	q.sets = q.sets[:0]
	q.asked.forget()
	q.request = mapping.Request{}
	q.call = engine.Call{}
}

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}
