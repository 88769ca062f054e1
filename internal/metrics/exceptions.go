package metrics

import "github.com/prometheus/client_golang/prometheus"

// WatchExceptions registers the number of exceptions in force by what they do, which is
// called at every scrape.
func (m *Metrics) WatchExceptions(counts func() map[string]int) {
	m.registry.MustRegister(exceptionCollector{
		prometheus.NewDesc(prometheus.BuildFQName(namespace, "", "exceptions"), "Exceptions in force by what they do: count, allow, deny or ban.", []string{"what"}, nil), counts,
	})
	for what := range counts() {
		m.excepted.WithLabelValues(what) // export all from the start
	}
}

// exceptionCollector exports the number of exceptions.
type exceptionCollector struct {
	desc   *prometheus.Desc
	counts func() map[string]int
}

// Describe implements prometheus.Collector.
func (c exceptionCollector) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

// Collect implements prometheus.Collector.
func (c exceptionCollector) Collect(to chan<- prometheus.Metric) {
	for what, n := range c.counts() {
		to <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(n), what)
	}
}

// Excepted counts a parameter set to which an exception applied.
func (m *Metrics) Excepted(what string) { m.excepted.WithLabelValues(what).Inc() }
