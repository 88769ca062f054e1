package metrics

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// series are the counters of one metric, found by a key of ours: a look-up
// neither locks nor allocates, where the library's makes a text of each label.
type series[K comparable] struct {
	vec    *prometheus.CounterVec
	labels func(K) []string
	// limit is the number of keys that get a counter of their own. The ones
	// after share that of the key which fold makes of them.
	limit int
	fold  func(K) K

	known atomic.Pointer[map[K]prometheus.Counter] // never changed, replaced
	grow  sync.Mutex
}

func newSeries[K comparable](o prometheus.CounterOpts, names []string, labels func(K) []string, limit int, fold func(K) K) *series[K] {
	s := &series[K]{vec: prometheus.NewCounterVec(o, names), labels: labels, limit: limit, fold: fold}
	s.known.Store(&map[K]prometheus.Counter{})
	return s
}

// of is the counter of k.
func (s *series[K]) of(k K) prometheus.Counter {
	known := *s.known.Load()
	if c, ok := known[k]; ok {
		return c
	}
	if len(known) >= s.limit {
		k = s.fold(k)
		if c, ok := known[k]; ok {
			return c
		}
	}
	return s.add(k)
}

func (s *series[K]) add(k K) prometheus.Counter {
	s.grow.Lock()
	defer s.grow.Unlock()
	known := *s.known.Load()
	if c, ok := known[k]; ok {
		return c
	}
	c := s.vec.WithLabelValues(s.labels(k)...)
	larger := maps.Clone(known)
	larger[k] = c
	s.known.Store(&larger)
	return c
}
