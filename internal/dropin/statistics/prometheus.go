package statistics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Handler returns the handler of a page of Prometheus.
func (s *Statistics) Handler(m *Mapper) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(collector{s, m})
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// collector collects the counts at each scrape.
type collector struct {
	statistics *Statistics
	mapper     *Mapper
}

// Describe describes nothing: which metrics there are depends on the limits.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends each metric once, with the sum of the counts that become it.
func (c collector) Collect(to chan<- prometheus.Metric) {
	sums, metrics, kinds := make(map[string]float64), make(map[string]metric), make(map[string]prometheus.ValueType)
	var order []string
	for _, one := range c.statistics.counters() {
		word, kind := "counter", prometheus.CounterValue
		if one.isGauge {
			word, kind = "gauge", prometheus.GaugeValue
		}
		m, ok := c.mapper.metricOf(one.name, word)
		if !ok {
			continue
		}
		key := m.key()
		kinds[key] = kind
		if _, exists := sums[key]; !exists {
			order, metrics[key] = append(order, key), m
		}
		sums[key] += float64(one.value) * m.scale
	}
	for _, key := range order {
		m := metrics[key]
		desc := prometheus.NewDesc(m.name, "Counted as envoyproxy/ratelimit does.", m.names, nil)
		if counted, err := prometheus.NewConstMetric(desc, kinds[key], sums[key], m.values...); err == nil {
			to <- counted
		}
	}
	c.collectTime(to)
}

// collectTime sends the histogram of response times. The names of envoyproxy/ratelimit
// count in milliseconds, which mappings scale.
func (c collector) collectTime(to chan<- prometheus.Metric) {
	m, ok := c.mapper.metricOf(responseTime, "observer")
	if !ok {
		return
	}
	first, end := 0, len(bounds)
	switch m.scale {
	case 1:
		end = inMilliseconds
	case 0.001:
		first = toSeconds
	}
	s := c.statistics
	buckets, count := make(map[float64]uint64, end-first), uint64(0)
	for i := range s.took {
		count += s.took[i].Load()
		if i >= first && i < end {
			buckets[bounds[i]/(1/m.scale)] = count // exact for 0.001, which the product is not
		}
	}
	desc := prometheus.NewDesc(m.name, "The time that calls took.", m.names, nil)
	if times, err := prometheus.NewConstHistogram(desc, count, float64(s.tookSum.Load())/1000*m.scale, buckets, m.values...); err == nil {
		to <- times
	}
}
