package service

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/koalagate/koalagate/internal/dropin/imported"
	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/internal/metrics"
)

// limitCounts are statistics of imported limits that also count the descriptors of each
// limit in the metrics, like the parameter sets of rules.
type limitCounts struct {
	imported.Statistics
	metrics *metrics.Metrics
	current func() *envoylimits.Set
	near    float64 // share of a limit above which a descriptor is near it

	mu     sync.Mutex // of loading
	active atomic.Pointer[countedLimits]
}

// countedLimits are the counts of the limits of a set.
type countedLimits struct {
	set    *envoylimits.Set
	counts map[*envoylimits.Limit]*metrics.Rule
}

// Counted implements imported.Statistics.
func (l *limitCounts) Counted(path string, limit *envoylimits.Limit, most, hits, before, after uint64) {
	l.Statistics.Counted(path, limit, most, hits, before, after)
	count := l.of(l.current()).counts[limit]
	if count == nil {
		return // the limit is the descriptor's own, or was replaced during the call
	}
	switch {
	case after <= most:
		count.Admitted(float64(after) > math.Floor(float64(most)*l.near))
	case limit.Shadow:
		count.ShadowRefused()
		count.Admitted(false)
	default:
		count.Refused()
	}
}

// of returns the counts of a set, which it loads if they are not the active ones.
func (l *limitCounts) of(set *envoylimits.Set) *countedLimits {
	if of := l.active.Load(); of != nil && of.set == set {
		return of
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if of := l.active.Load(); of != nil && of.set == set {
		return of
	}
	of := &countedLimits{set: set}
	if set != nil {
		limits := set.Limits()
		paths := make([]string, len(limits))
		for i, limit := range limits {
			paths[i] = limit.Path
		}
		of.counts = make(map[*envoylimits.Limit]*metrics.Rule, len(limits))
		for i, count := range l.metrics.LoadLimits(paths) {
			of.counts[limits[i]] = count
		}
	}
	l.active.Store(of)
	return of
}
