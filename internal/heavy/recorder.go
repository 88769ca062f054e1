// Package heavy finds the identities with the most refused, admitted and nearly exhausted
// calls, by rule. Callers append their identities to a buffer and go on; a goroutine
// counts them in sketches of bounded memory, one for each kind and minute. If there are
// many calls of a kind, callers append a random sample of them. Of each minute
// the heaviest identities are kept, for an hour, with the error of their counts. With
// Redis instances exchange them, so that the answer covers all instances.
package heavy

import (
	"context"
	"hash/maphash"
	"log/slog"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/koalagate/koalagate/internal/fleet/minutes"
	"github.com/koalagate/koalagate/internal/loglimit"
	"github.com/koalagate/koalagate/rules"
)

// Kind is the outcome of a call.
type Kind uint8

// The kinds.
const (
	Refused  Kind = iota // by the rule
	Admitted             // the rule was met
	Near                 // admitted, with more of the limit used than near_limit_ratio
	kinds
)

// Options are the options of New.
type Options struct {
	// Shared are the minutes in Redis; nil without Redis.
	Shared *minutes.Records
	// Rule returns the active rule with a number, for its name; nil if there is none.
	Rule func(number int64) *rules.Rule
	// Values returns the parameters of an identity; nil means rules.Match.Values.
	Values func(*rules.Match) []rules.Param
	// Standing returns what the rules in force do about an identity; nil if it does not matter.
	// The number of a rule may be one of an earlier rule, and is 0 for an imported limit, whose
	// path is limit.
	Standing func(rule int64, limit string, identity map[string]string) Standing
	// Mask returns a value of a parameter, NAME or NAME@SOURCE, at a door as it may be shown; nil
	// shows all.
	Mask func(door, name, value string) string
	// Handle returns a handle for an identity and what is shown of it, by name: "" without a mask.
	// nil gives no handles.
	Handle func(identity, shown map[string]string) string
	// Now is the clock by which minutes begin; nil for time.Now.
	Now func() time.Time
	// Logger receives faults of Redis. The default is slog.Default.
	Logger *slog.Logger
}

// Recorder finds the heaviest identities. It is safe for concurrent use.
type Recorder struct {
	o      Options
	warner loglimit.Warner
	lanes  []lane
	full   chan struct{} // a lane needs to be emptied
	// sampling has the exponent of each kind: one of 2^exponent calls is counted.
	sampling [kinds]atomic.Uint32

	mu       sync.Mutex
	sketches [kinds]*sketch
	minute   int64      // of the sketches
	dropped  int64      // calls in it that found no room
	counted  [kinds]int // calls since the exponents were adapted
	spare    buffer
	hour     [minutes.Kept]*minute // by minute, the number modulo the length
}

const (
	// emptyInterval is the time between two looks for calls in the buffers.
	emptyInterval = 100 * time.Millisecond
	// writeInterval is the time between two writes of the current minute to Redis.
	writeInterval = 5 * time.Second
	// maxCounted is the number of calls of a kind in an interval above which the next
	// intervals sample them.
	maxCounted = 1024
	// maxExponent bounds the exponents of samples.
	maxExponent = 12
	// maxWaiting and maxWaitingBytes bound the calls that wait in one lane.
	maxWaiting      = 8192
	maxWaitingBytes = 512 << 10
	// documents is the kind of the documents in Redis.
	documents = "top"
)

// New returns a recorder, which begins to count with Run.
func New(o Options) *Recorder {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Rule == nil {
		o.Rule = func(int64) *rules.Rule { return nil }
	}
	if o.Standing == nil {
		o.Standing = func(int64, string, map[string]string) Standing { return Standing{} }
	}
	if o.Values == nil {
		o.Values = (*rules.Match).Values
	}
	if o.Mask == nil {
		o.Mask = func(_, _, value string) string { return value }
	}
	if o.Handle == nil {
		o.Handle = func(_, _ map[string]string) string { return "" }
	}
	n := 1
	for n < 2*runtime.GOMAXPROCS(0) {
		n *= 2
	}
	r := &Recorder{o: o, warner: loglimit.Warner{Logger: o.Logger}, lanes: make([]lane, n), full: make(chan struct{}, 1)}
	seed := maphash.MakeSeed()
	for k := range r.sketches {
		r.sketches[k] = newSketch(seed)
	}
	r.minute = minutes.Of(o.Now())
	return r
}

// lane is a buffer of calls, of which there are several, so that callers seldom wait for
// each other.
type lane struct {
	sync.Mutex
	buffer
	dropped int64

	_ [24]byte // lanes share no cache line
}

// buffer holds calls and their identities.
type buffer struct {
	calls      []waiting
	identities []byte
}

// waiting is a call in a buffer.
type waiting struct {
	rule     *rules.Rule
	door     string
	length   uint32 // of its identity
	kind     Kind
	exponent uint8 // of the sample; with exact, so many calls are one
}

// exact marks the exponent of a number of calls that arrived together, none of which a sample
// has left out.
const exact = 1 << 7

// Add counts a call at a door with the identities of matches, or leaves it out of the sample.
// Direct rules that did not refuse have no identity.
func (r *Recorder) Add(k Kind, door string, matches []rules.Match) {
	exponent, chance := r.sampling[k].Load(), rand.Uint64() //nolint:gosec // it spreads callers and is no secret
	if chance&(1<<exponent-1) != 0 {
		return
	}
	r.append(k, door, matches, chance>>32, uint8(exponent))
}

// AddHits counts a number of calls that arrive together, as Add does.
func (r *Recorder) AddHits(k Kind, door string, matches []rules.Match, hits uint64) {
	for ; hits != 0; hits &= hits - 1 {
		r.append(k, door, matches, hits, exact|uint8(bits.TrailingZeros64(hits)))
	}
}

// append appends a call, or several with an exact exponent, to one of the lanes.
func (r *Recorder) append(k Kind, door string, matches []rules.Match, lane uint64, exponent uint8) {
	l := &r.lanes[lane&uint64(len(r.lanes)-1)]
	l.Lock()
	for i := range matches {
		l.add(waiting{rule: matches[i].Rule, door: door, kind: k, exponent: exponent}, matches[i].Identity)
	}
	isHalfFull := len(l.calls) > maxWaiting/2 || len(l.identities) > maxWaitingBytes/2
	l.Unlock()
	if isHalfFull {
		select {
		case r.full <- struct{}{}:
		default: // it will be emptied
		}
	}
}

// add appends a call with an identity, if it has one. l is locked.
func (l *lane) add(c waiting, identity []byte) {
	switch {
	case len(identity) == 0:
	case len(l.calls) >= maxWaiting || len(l.identities)+len(identity) > maxWaitingBytes:
		l.dropped += 1 << (c.exponent &^ exact)
	default:
		c.length = uint32(len(identity))
		l.calls, l.identities = append(l.calls, c), append(l.identities, identity...)
	}
}

// Run counts the calls until ctx is done.
func (r *Recorder) Run(ctx context.Context) {
	var writer sync.WaitGroup
	defer writer.Wait()
	if r.o.Shared != nil {
		writer.Go(func() { minutes.Keep(ctx, writeInterval, r.o.Now, r.share) })
	}
	tick := time.NewTicker(emptyInterval)
	defer tick.Stop()
	for {
		r.empty()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.adapt()
		case <-r.full:
		}
	}
}

// adapt sets the samples for the next interval by the calls of the last one.
func (r *Recorder) adapt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, n := range r.counted {
		exponent := r.sampling[k].Load()
		switch {
		case n > maxCounted:
			exponent = min(exponent+uint32(bits.Len(uint(n/maxCounted))), maxExponent)
		case n < maxCounted/4 && exponent > 0:
			exponent--
		}
		r.sampling[k].Store(exponent)
		r.counted[k] = 0
	}
}

// empty counts the calls in the buffers.
func (r *Recorder) empty() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn()
	for i := range r.lanes {
		l := &r.lanes[i]
		l.Lock()
		l.buffer, r.spare = r.spare, l.buffer
		r.dropped += l.dropped
		l.dropped = 0
		l.Unlock()
		identities := r.spare.identities
		for j := range r.spare.calls {
			c := &r.spare.calls[j]
			r.counted[c.kind]++
			r.sketches[c.kind].add(c.rule, c.door, identities[:c.length], c.exponent)
			identities = identities[c.length:]
		}
		clear(r.spare.calls) // the rules may be gone soon
		r.spare = buffer{r.spare.calls[:0], r.spare.identities[:0]}
	}
}

// turn keeps the minute of the sketches and begins the next, if it is over. r.mu is held.
func (r *Recorder) turn() {
	now := minutes.Of(r.o.Now())
	if now == r.minute {
		return
	}
	if r.isUsed() {
		r.hour[r.minute%minutes.Kept] = r.freeze()
	}
	for k, s := range r.sketches {
		if s.calls > 0 {
			r.sketches[k] = newSketch(s.seed)
		}
	}
	r.minute, r.dropped = now, 0
}

// isUsed reports whether the sketches have calls. r.mu is held.
func (r *Recorder) isUsed() bool {
	for _, s := range r.sketches {
		if s.calls > 0 {
			return true
		}
	}
	return r.dropped > 0
}
