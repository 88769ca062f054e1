package metrics

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// series contains the counters of one metric by key. A lookup neither locks nor
// allocates, whereas the library's lookup builds a string for each label.
type series[K comparable] struct {
	vec    *prometheus.CounterVec
	labels func(K) []string
	// limit is the number of keys with their own counters. Further keys share
	// the counter of the key that fold returns for them.
	limit int
	fold  func(K) K
	// isGone reports, if it is set, whether the series of a key ends at the next scrape.
	isGone func(K) bool

	known atomic.Pointer[map[K]prometheus.Counter] // replaced, never modified
	grow  sync.Mutex
}

func newSeries[K comparable](o prometheus.CounterOpts, names []string, labels func(K) []string, limit int, fold func(K) K) *series[K] {
	s := &series[K]{vec: prometheus.NewCounterVec(o, names), labels: labels, limit: limit, fold: fold}
	s.known.Store(&map[K]prometheus.Counter{})
	return s
}

// of returns the counter of k.
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

// Describe implements prometheus.Collector.
func (s *series[K]) Describe(to chan<- *prometheus.Desc) { s.vec.Describe(to) }

// Collect implements prometheus.Collector.
func (s *series[K]) Collect(to chan<- prometheus.Metric) {
	s.removeGone()
	s.vec.Collect(to)
}

// removeGone ends the series of keys that are gone.
func (s *series[K]) removeGone() {
	if s.isGone == nil {
		return
	}
	s.grow.Lock()
	defer s.grow.Unlock()
	known := *s.known.Load()
	left := maps.Clone(known)
	maps.DeleteFunc(left, func(k K, _ prometheus.Counter) bool { return s.isGone(k) })
	if len(left) == len(known) {
		return
	}
	s.known.Store(&left)
	for k := range known {
		if _, ok := left[k]; !ok {
			s.vec.DeleteLabelValues(s.labels(k)...)
		}
	}
}

// each calls f with all keys and their counts.
func (s *series[K]) each(f func(key K, count float64)) {
	for key, counter := range *s.known.Load() {
		var now dto.Metric
		if counter.Write(&now) == nil {
			f(key, now.GetCounter().GetValue())
		}
	}
}
