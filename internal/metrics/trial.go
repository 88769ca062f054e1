package metrics

import "github.com/prometheus/client_golang/prometheus"

// Trial are the counts of the trials of this instance.
type Trial struct {
	Running                                       bool
	Requests, Dropped, NewlyRefused, NewlyAllowed int64 // since the start
}

// WatchTrial registers the counts of trials. The function is called at every scrape.
func (m *Metrics) WatchTrial(counts func() Trial) {
	counter := func(name, help string, of func(*Trial) int64) prometheus.Collector {
		return prometheus.NewCounterFunc(opts(name, help), func() float64 {
			now := counts()
			return float64(of(&now))
		})
	}
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(gauge("trial_running", "1 while rules are on trial at this instance."), func() float64 {
			if counts().Running {
				return 1
			}
			return 0
		}),
		counter("trial_requests_total", "Calls that both the rules in force and rules on trial decided.", func(t *Trial) int64 { return t.Requests }),
		counter("trial_dropped_total", "Calls that a trial left out because it was slower than the traffic or its counters did not answer.", func(t *Trial) int64 { return t.Dropped }),
		counter("trial_newly_refused_total", "Calls that rules on trial alone would have refused.", func(t *Trial) int64 { return t.NewlyRefused }),
		counter("trial_newly_allowed_total", "Calls that rules on trial would have allowed although the rules in force refused them.", func(t *Trial) int64 { return t.NewlyAllowed }))
}
