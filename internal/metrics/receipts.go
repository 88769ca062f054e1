package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

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
