// Package statistics counts under the names of envoyproxy/ratelimit, and exports the
// counts as text for /stats, to statsd and to Prometheus.
//
// statistics.go counts; names.go spells the names; export.go writes text and statsd;
// prometheus.go and mapper.go turn the names into metrics with labels.
package statistics

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/koalagate/koalagate/internal/envoylimits"
)

// MaxPaths is the largest number of paths with counts of their own. Clients can choose
// paths if a configuration has detailed_metric or value_to_metric, or if descriptors state
// limits themselves; further paths are counted under the path of their limit, which has no
// values of requests. Gateways choose the keys of limits that descriptors state: from twice as
// many paths on, new ones of these are not counted.
const MaxPaths = 100_000

// Statistics are the counts since the start. They implement imported.Statistics and
// dropin.Loads. Use New; they are safe for concurrent use.
type Statistics struct {
	nearRatio float32
	paths     sync.Map // path → *limit
	size      atomic.Int64
	unknown   sync.Map // domain → *atomic.Uint64
	unknowns  atomic.Int64

	calls                      atomic.Uint64
	storeErrors, requestErrors atomic.Uint64
	overruled                  atomic.Uint64
	loads, loadErrors          atomic.Uint64
	tookSum                    atomic.Uint64 // in µs
	took                       [len(bounds) + 1]atomic.Uint64
	connections                atomic.Pointer[func() Connections] // nil for none
}

// Connections are the connections to Redis: the open ones, and the number of connections
// that were closed since the start.
type Connections struct{ Open, Closed uint64 }

// WatchConnections adds the connections that read returns to the statistics.
func (s *Statistics) WatchConnections(read func() Connections) { s.connections.Store(&read) }

// limit has the counts of one path.
type limit struct {
	total, over, near, within, shadow, negative atomic.Uint64
}

// New returns counts that are all 0. A hit is near the limit if the count after it exceeds
// nearRatio of the limit.
func New(nearRatio float64) *Statistics { return &Statistics{nearRatio: float32(nearRatio)} }

// bounds are the upper bounds of the histogram of response times, in milliseconds: those
// of Prometheus from 0.005 to 10, for mappings that do not scale them, and a thousand
// times as long, for mappings to seconds.
var bounds = [...]float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000}

// inMilliseconds is the number of bounds up to 10, and toSeconds the index of 5.
const inMilliseconds, toSeconds = 11, 9

// Called counts a call.
func (s *Statistics) Called(took time.Duration) {
	s.calls.Add(1)
	s.tookSum.Add(uint64(max(took, 0).Microseconds()))
	i, milliseconds := 0, float64(took)/float64(time.Millisecond)
	for i < len(bounds) && milliseconds > bounds[i] {
		i++
	}
	s.took[i].Add(1)
}

// UnknownDomain counts a descriptor of a domain without limits.
func (s *Statistics) UnknownDomain(domain string) {
	const most = 1000 // clients choose no domains, but a mistaken gateway may
	v, exists := s.unknown.Load(domain)
	if !exists {
		if s.unknowns.Add(1) > most {
			s.unknowns.Add(-1)
			return
		}
		v, _ = s.unknown.LoadOrStore(domain, new(atomic.Uint64))
	}
	v.(*atomic.Uint64).Add(1)
}

// of returns the counts of a path, or of the limit's own path if there are too many.
func (s *Statistics) of(path string, own *envoylimits.Limit) *limit {
	if l, exists := s.paths.Load(path); exists {
		return l.(*limit)
	}
	switch size := s.size.Load(); {
	case path != own.Path && size >= MaxPaths:
		return s.of(own.Path, own)
	case own.Number < 0 && size >= 2*MaxPaths:
		return new(limit) // which nobody reads
	}
	l, exists := s.paths.LoadOrStore(path, new(limit))
	if !exists {
		s.size.Add(1)
	}
	return l.(*limit)
}

// Counted counts the hits of a descriptor that may have most of them: those above the limit,
// those near it, and all of them as within the limit if the limit holds after them.
func (s *Statistics) Counted(path string, l *envoylimits.Limit, most, hits, before, after uint64) {
	c := s.of(path, l)
	c.total.Add(hits)
	near := uint64(math.Floor(float64(float32(most) * s.nearRatio)))
	if after <= most {
		c.within.Add(hits)
		c.near.Add(beyond(near, hits, before, after))
		return
	}
	over := beyond(most, hits, before, after)
	c.over.Add(over)
	if before < most {
		c.near.Add(most - max(near, before))
	}
	if l.Shadow {
		c.shadow.Add(over)
	}
}

// beyond returns the number of hits that are above a threshold.
func beyond(threshold, hits, before, after uint64) uint64 {
	switch {
	case after <= threshold:
		return 0
	case before >= threshold:
		return hits
	}
	return after - threshold
}

// Subtracted counts hits that a descriptor gave back.
func (s *Statistics) Subtracted(path string, l *envoylimits.Limit, hits uint64) {
	s.of(path, l).negative.Add(hits)
}

// Overruled counts a refusal that SHADOW_MODE let through.
func (s *Statistics) Overruled() { s.overruled.Add(1) }

// StoreFailed counts a call that no store answered.
func (s *Statistics) StoreFailed() { s.storeErrors.Add(1) }

// RequestFailed counts a call that ended with another error.
func (s *Statistics) RequestFailed() { s.requestErrors.Add(1) }

// Loaded counts an attempt to load limits.
func (s *Statistics) Loaded(ok bool) {
	if ok {
		s.loads.Add(1)
	} else {
		s.loadErrors.Add(1)
	}
}
