package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// RedisCalls contains counts of Redis calls since the start.
type RedisCalls struct {
	Decisions    int64 // decisions made by Redis
	Scripts      int64 // script calls for these decisions
	Remembered   int64 // refusals repeated from memory
	Stranded     int64 // parts of refused decisions that were not given back
	PoolTimeouts int64 // round trips that found no free connection in time
}

// RedisLoad is the current use of Redis.
type RedisLoad struct {
	Flying  int64 // round trips under way
	Waiting int64 // decisions that wait for a round trip
	Idle    int64 // connections that no round trip uses
	Used    int64 // connections that round trips use
}

// Leases contains counts of hits that instances hold in advance.
type Leases struct {
	Held                  int64 // now, by this instance
	Spent, Returned, Lost int64
	Early                 int64 // calls refused only because of held hits
}

// WatchLeases registers metrics of parts of limits that are held in advance, and must be
// called at most once. The function is called at every scrape.
func (m *Metrics) WatchLeases(leases func() Leases) {
	hits := func(outcome string, of func(Leases) int64) prometheus.Collector {
		o := opts("lease_hits_total", "Hits that were held in advance by rules with lease=P%, by what became of them: spent, returned, or lost because Redis did not answer or their window had closed.")
		o.ConstLabels = prometheus.Labels{"outcome": outcome}
		return prometheus.NewCounterFunc(o, func() float64 { return float64(of(leases())) })
	}
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(gauge("lease_held_hits", "Hits that this instance holds in advance."), func() float64 { return float64(leases().Held) }),
		hits("spent", func(l Leases) int64 { return l.Spent }),
		hits("returned", func(l Leases) int64 { return l.Returned }),
		hits("lost", func(l Leases) int64 { return l.Lost }),
		prometheus.NewCounterFunc(opts("lease_early_refusals_total", "Calls that were refused only because of hits that instances held in advance and had perhaps not spent."), func() float64 { return float64(leases().Early) }))
}

// WatchRedis registers metrics of Redis calls, and must be called at most once.
// The functions are called at every scrape.
func (m *Metrics) WatchRedis(calls func() RedisCalls, load func() RedisLoad) {
	connections := func(state string, of func(RedisLoad) int64) prometheus.Collector {
		o := gauge("redis_connections", "Connections to Redis, by state: idle or used.")
		o.ConstLabels = prometheus.Labels{"state": state}
		return prometheus.NewGaugeFunc(o, func() float64 { return float64(of(load())) })
	}
	m.registry.MustRegister(
		connections("idle", func(l RedisLoad) int64 { return l.Idle }),
		connections("used", func(l RedisLoad) int64 { return l.Used }),
		prometheus.NewGaugeFunc(gauge("redis_round_trips_in_flight", "Round trips to Redis that are under way."), func() float64 { return float64(load().Flying) }),
		prometheus.NewGaugeFunc(gauge("redis_waiting_decisions", "Decisions that wait for a round trip to Redis, because others are under way."), func() float64 { return float64(load().Waiting) }))
	counter := func(name, help string, of func(RedisCalls) int64) prometheus.Collector {
		return prometheus.NewCounterFunc(opts(name, help), func() float64 { return float64(of(calls())) })
	}
	m.registry.MustRegister(
		counter("redis_decisions_total", "Decisions sent to Redis.", func(c RedisCalls) int64 { return c.Decisions }),
		counter("redis_script_calls_total", "Script calls for these decisions: decisions divided by script calls is the average batch size.", func(c RedisCalls) int64 { return c.Scripts }),
		counter("remembered_refusals_total", "Refusals repeated from memory without a call to Redis.", func(c RedisCalls) int64 { return c.Remembered }),
		counter("redis_pool_timeouts_total", "Round trips that found no free connection to Redis in time.", func(c RedisCalls) int64 { return c.PoolTimeouts }),
		counter("redis_stranded_parts_total", "Parts of refused decisions over several slots of a Cluster that were not given back: their hits may remain until their windows end.", func(c RedisCalls) int64 { return c.Stranded }))
}

// The results of settlements and renewals.
const (
	SettledOK       = "ok"
	SettledUnknown  = "unknown"
	SettledDeferred = "deferred"
	SettledError    = "error"
)

// receipts are the metrics of receipts and their settlements.
type receipts struct {
	issued      prometheus.Counter
	settlements *prometheus.CounterVec
	renewals    *prometheus.CounterVec
	age         prometheus.Histogram
	dropped     *prometheus.CounterVec
}

func newReceipts(r *prometheus.Registry) *receipts {
	results := []string{"result"}
	t := &receipts{
		issued:      prometheus.NewCounter(opts("receipts_total", "Receipts of allowed calls, kept in Redis or in process.")),
		settlements: prometheus.NewCounterVec(opts("settlements_total", "Settlements of receipts by result: ok, unknown (settled before, expired or never issued), deferred until Redis is available, or error."), results),
		renewals:    prometheus.NewCounterVec(opts("renewals_total", "Renewals of receipts by result, as settlements."), results),
		age: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "receipt_age_seconds",
			Help:    "Time from the decision to its settlement.",
			Buckets: []float64{.01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 600, 3600},
		}),
	}
	t.dropped = prometheus.NewCounterVec(opts("reports_dropped_total", "Datagrams at report_addr that were dropped, by reason: untrusted, too_long, malformed or queue_full."), []string{"reason"})
	r.MustRegister(t.issued, t.settlements, t.renewals, t.age, t.dropped)
	for _, result := range []string{SettledOK, SettledUnknown, SettledDeferred, SettledError} {
		t.settlements.WithLabelValues(result) // export all from the start
		t.renewals.WithLabelValues(result)
	}
	return t
}

// Issued counts a receipt.
func (m *Metrics) Issued() { m.receipts.issued.Inc() }

// Settled counts a settlement, and the age of its receipt if that was known.
func (m *Metrics) Settled(result string, age time.Duration) {
	m.receipts.settlements.WithLabelValues(result).Inc()
	if result == SettledOK {
		m.receipts.age.Observe(age.Seconds())
	}
}

// WatchReports exports the reasons why datagrams at report_addr are dropped, from the start.
func (m *Metrics) WatchReports(reasons []string) {
	for _, reason := range reasons {
		m.receipts.dropped.WithLabelValues(reason)
	}
}

// ReportDropped counts a datagram at report_addr that was dropped.
func (m *Metrics) ReportDropped(reason string) { m.receipts.dropped.WithLabelValues(reason).Inc() }

// Renewed counts a renewal.
func (m *Metrics) Renewed(result string) { m.receipts.renewals.WithLabelValues(result).Inc() }

// WatchSettlements registers the settlements that wait for Redis. The function is called at
// every scrape.
func (m *Metrics) WatchSettlements(waiting func() int) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(gauge("settlements_waiting", "Settlements that wait until Redis is available; at most max_settlements_waiting."),
		func() float64 { return float64(waiting()) }))
}

// WatchReceipts registers the receipts in process: the open ones, and the ones that
// expired before they were settled. The function is called at every scrape.
func (m *Metrics) WatchReceipts(kept func() (open int, expired uint64)) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(gauge("memory_receipts", "Receipts that are kept in process; at most max_receipts."), func() float64 {
			open, _ := kept()
			return float64(open)
		}),
		prometheus.NewCounterFunc(opts("memory_receipts_expired_total", "Receipts in process that expired before they were settled: their estimates stand."), func() float64 {
			_, expired := kept()
			return float64(expired)
		}))
}
