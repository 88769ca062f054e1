package metrics

import "github.com/prometheus/client_golang/prometheus"

// Quotas are what gateways that decide by themselves have, and counts since the start: the
// Stats of package rlqs.
type Quotas struct {
	Streams, Buckets int64
	Rate             float64          // hits per second of all shares
	Lent             float64          // the largest part of a limit that gateways hold, 0 … 1 or more
	Assigned         map[string]int64 // answers, by their kind
	Allowed, Denied  int64            // reported hits
	Forfeited, Debt  int64            // hits
	Received, Sent   int64            // messages
}

// WatchQuotas registers metrics of quotas, by the kinds of assignments, and must be called at
// most once. The function is called at every scrape.
func (m *Metrics) WatchQuotas(kinds []string, quotas func() Quotas) {
	now := func(name, help string, of func(Quotas) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(gauge(name, help), func() float64 { return of(quotas()) })
	}
	count := func(name, help, label, value string, of func(Quotas) int64) prometheus.Collector {
		o := opts(name, help)
		if label != "" {
			o.ConstLabels = prometheus.Labels{label: value}
		}
		return prometheus.NewCounterFunc(o, func() float64 { return float64(of(quotas())) })
	}
	const (
		reported = "Hits that Envoys with quotas have reported: allowed or denied."
		messages = "Messages of the streams: reports received, and answers sent."
	)
	m.registry.MustRegister(
		now("quota_streams", "Open streams of Envoy's quota filter.", func(q Quotas) float64 { return float64(q.Streams) }),
		now("quota_buckets", "Buckets of the open streams.", func(q Quotas) float64 { return float64(q.Buckets) }),
		now("quota_rate", "Hits per second that the shares of these buckets admit together.", func(q Quotas) float64 { return q.Rate }),
		now("quota_lent_ratio", "The largest part of a limit that Envoys hold, over the limits of these buckets.", func(q Quotas) float64 { return q.Lent }),
		count("quota_reported_hits_total", reported, "verdict", "allowed", func(q Quotas) int64 { return q.Allowed }),
		count("quota_reported_hits_total", reported, "verdict", "denied", func(q Quotas) int64 { return q.Denied }),
		count("quota_messages_total", messages, "direction", "received", func(q Quotas) int64 { return q.Received }),
		count("quota_messages_total", messages, "direction", "sent", func(q Quotas) int64 { return q.Sent }),
		count("quota_forfeited_hits_total", "Hits that were reserved for Envoys which did not report in time: they count as spent.", "", "", func(q Quotas) int64 { return q.Forfeited }),
		count("quota_debt_hits_total", "Reported hits that no share covered, and that were taken from the limits afterwards.", "", "", func(q Quotas) int64 { return q.Debt }),
	)
	for _, kind := range kinds {
		m.registry.MustRegister(count("quota_assignments_total", "Answers to Envoys about buckets: share, allow or deny (all), spent (nothing is left, or no room for another share), keep (no change), none (the limit cannot be shared).", "kind", kind, func(q Quotas) int64 { return q.Assigned[kind] }))
	}
}
