package metrics

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// vector is a CounterVec or a HistogramVec of the library.
type vector[M any] interface {
	prometheus.Collector
	WithLabelValues(values ...string) M
	DeleteLabelValues(values ...string) bool
}

// series contains the counters or histograms of one metric by key. A lookup neither
// locks nor allocates, whereas the library's lookup builds a string for each label.
type series[K comparable, M any] struct {
	vec    vector[M]
	labels func(K) []string
	// limit is the number of keys with their own series. Further keys share
	// the series of the key that fold returns for them.
	limit int
	fold  func(K) K
	// isGone reports, if it is set, whether the series of a key ends at the next scrape.
	isGone func(K) bool

	known atomic.Pointer[members[K, M]] // replaced, never modified
	grow  sync.Mutex
}

// members are the counters or histograms by key. A few of them are also in a list, because to
// compare them takes less time than to hash a key of texts.
type members[K comparable, M any] struct {
	all map[K]M
	few []member[K, M]
}

type member[K comparable, M any] struct {
	key K
	of  M
}

// mostFew is the number of keys up to which all are in the list.
const mostFew = 8

func membersOf[K comparable, M any](all map[K]M) *members[K, M] {
	m := &members[K, M]{all: all}
	if len(all) <= mostFew {
		for key, of := range all {
			m.few = append(m.few, member[K, M]{key, of})
		}
	}
	return m
}

// find returns the counter or histogram of k, and whether it exists.
func (m *members[K, M]) find(k K) (of M, ok bool) {
	for i := range m.few {
		if m.few[i].key == k {
			return m.few[i].of, true
		}
	}
	of, ok = m.all[k]
	return of, ok
}

// counters are the counters of one metric by key.
type counters[K comparable] = series[K, prometheus.Counter]

func newCounters[K comparable](o prometheus.CounterOpts, names []string, labels func(K) []string, limit int, fold func(K) K) *counters[K] {
	return newSeries(prometheus.NewCounterVec(o, names), labels, limit, fold)
}

func newSeries[K comparable, M any](vec vector[M], labels func(K) []string, limit int, fold func(K) K) *series[K, M] {
	s := &series[K, M]{vec: vec, labels: labels, limit: limit, fold: fold}
	s.known.Store(membersOf(map[K]M{}))
	return s
}

// of returns the counter or histogram of k.
func (s *series[K, M]) of(k K) M {
	known := s.known.Load()
	if c, ok := known.find(k); ok {
		return c
	}
	if len(known.all) >= s.limit {
		k = s.fold(k)
		if c, ok := known.find(k); ok {
			return c
		}
	}
	return s.add(k)
}

func (s *series[K, M]) add(k K) M {
	s.grow.Lock()
	defer s.grow.Unlock()
	known := s.known.Load().all
	if c, ok := known[k]; ok {
		return c
	}
	c := s.vec.WithLabelValues(s.labels(k)...)
	larger := maps.Clone(known)
	larger[k] = c
	s.known.Store(membersOf(larger))
	return c
}

// Describe implements prometheus.Collector.
func (s *series[K, M]) Describe(to chan<- *prometheus.Desc) { s.vec.Describe(to) }

// Collect implements prometheus.Collector.
func (s *series[K, M]) Collect(to chan<- prometheus.Metric) {
	s.removeGone()
	s.vec.Collect(to)
}

// removeGone ends the series of keys that are gone.
func (s *series[K, M]) removeGone() {
	if s.isGone == nil {
		return
	}
	s.grow.Lock()
	defer s.grow.Unlock()
	known := s.known.Load().all
	left := maps.Clone(known)
	maps.DeleteFunc(left, func(k K, _ M) bool { return s.isGone(k) })
	if len(left) == len(known) {
		return
	}
	s.known.Store(membersOf(left))
	for k := range known {
		if _, ok := left[k]; !ok {
			s.vec.DeleteLabelValues(s.labels(k)...)
		}
	}
}

// each calls f with all keys and their counters or histograms.
func (s *series[K, M]) each(f func(key K, now M)) {
	for key, now := range s.known.Load().all {
		f(key, now)
	}
}
