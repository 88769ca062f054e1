package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

type decisionKey struct{ door, verdict string }

// Verdicts of decisions that the rule language does not define.
const (
	Unavailable = "unavailable"
	Invalid     = "invalid"
)

// Decided counts a decision.
func (m *Metrics) Decided(door, verdict string) {
	m.decisions.of(decisionKey{door, verdict}).Inc()
	if verdict == Unavailable {
		m.failures.Inc()
	}
}

// Reported counts hits that a gateway has decided by itself as decisions of its door.
func (m *Metrics) Reported(door string, allowed, denied uint64) {
	m.decisions.of(decisionKey{door, "allow"}).Add(float64(allowed))
	m.decisions.of(decisionKey{door, "deny"}).Add(float64(denied))
}

// Rule counts the parameter sets that matched one rule. Every parameter set is counted
// by one of Admitted, Refused and PassedOver. The zero value is ready for use. It is
// safe for concurrent use.
type Rule struct {
	admitted, refused, passedOver, near, shadow atomic.Uint64

	_ [24]byte // rules that are counted concurrently share no cache line
}

// Admitted counts a parameter set that was admitted; near reports that this used more
// of the rule's limit than near_limit_ratio.
func (r *Rule) Admitted(near bool) {
	r.admitted.Add(1)
	if near {
		r.near.Add(1)
	}
}

// Refused counts a parameter set that the rule refused.
func (r *Rule) Refused() { r.refused.Add(1) }

// PassedOver counts a parameter set that something other than the rule refused.
func (r *Rule) PassedOver() { r.passedOver.Add(1) }

// Reported counts hits that a gateway has decided by itself: that it admitted, that the rule
// refused, and that something else refused.
func (r *Rule) Reported(admitted, refused, passedOver uint64) {
	r.admitted.Add(admitted)
	r.refused.Add(refused)
	r.passedOver.Add(passedOver)
}

// ShadowRefused counts a parameter set that the rule would have refused without
// shadow=1, in addition to one of the other counts.
func (r *Rule) ShadowRefused() { r.shadow.Add(1) }

// WatchDoor exports the counts of a door that alerts watch, which are 0 until Decided is
// called: Prometheus does not see the increase of a series that begins with it.
func (m *Metrics) WatchDoor(door string) {
	for _, verdict := range []string{Unavailable, Invalid} {
		m.decisions.of(decisionKey{door, verdict})
	}
}

// DecisionTotals returns the number of decisions by verdict, for all verdicts that occurred.
func (m *Metrics) DecisionTotals() map[string]int64 {
	totals := make(map[string]int64)
	m.decisions.each(func(k decisionKey, counter prometheus.Counter) {
		var now dto.Metric
		if counter.Write(&now) == nil && now.GetCounter().GetValue() > 0 {
			totals[k.verdict] += int64(now.GetCounter().GetValue())
		}
	})
	return totals
}

// WatchDoors exports the times of calls at these doors. It must be called before the
// first call.
func (m *Metrics) WatchDoors(doors []string) {
	for _, door := range doors {
		m.servers.took[door] = m.servers.calls.WithLabelValues(door)
	}
}

// Answered records the time of a call at a door.
func (m *Metrics) Answered(door string, took time.Duration) {
	if of := m.servers.took[door]; of != nil {
		of.Observe(took.Seconds())
	}
}

// Evaluated records the time that the store took for one decision.
func (m *Metrics) Evaluated(d time.Duration) { m.evaluated.Observe(d.Seconds()) }

// Rescued counts a decision of the in-process store instead of Redis.
func (m *Metrics) Rescued() { m.rescued.Inc() }

// Degraded records whether the in-process store decides instead of Redis.
func (m *Metrics) Degraded(is bool) { m.degraded.Set(number(is)) }

// trips are the metrics of round trips to Redis.
type trips struct {
	took   prometheus.Histogram
	sizes  prometheus.Histogram
	errors *prometheus.CounterVec
}

// WatchTrips registers metrics of round trips to Redis, with these kinds of faults. It
// must be called once, before the first trip.
func (m *Metrics) WatchTrips(kinds []string) {
	m.trips = &trips{
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "redis_round_trip_seconds",
			Help:    "Time of a round trip to Redis, which carries the decisions of one or more script calls.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25},
		}),
		sizes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "redis_batch_decisions",
			Help:    "Decisions in one script call of Redis.",
			Buckets: []float64{1, 2, 4, 8, 16, 32, 64},
		}),
		errors: prometheus.NewCounterVec(opts("redis_errors_total", "Round trips to Redis that failed, by kind: timeout, connection, redirect (a node of a Cluster named another one) or reply."), []string{"kind"}),
	}
	for _, kind := range kinds {
		m.trips.errors.WithLabelValues(kind)
	}
	m.registry.MustRegister(m.trips.took, m.trips.sizes, m.trips.errors)
}

// RoundTrip records a round trip to Redis. The kind of its fault is "" for none.
func (m *Metrics) RoundTrip(took time.Duration, kind string) {
	m.trips.took.Observe(took.Seconds())
	if kind != "" {
		m.trips.errors.WithLabelValues(kind).Inc()
	}
}

// Script records a script call with this number of decisions.
func (m *Metrics) Script(decisions int) { m.trips.sizes.Observe(float64(decisions)) }
