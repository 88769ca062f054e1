package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// maxTokens is the number of pairs of a token and an outcome with their own series.
const maxTokens = 200

type tokenKey struct{ token, outcome string }

// noToken is the label of the series that exist before there are tokens.
const noToken = "other"

// tokens counts the verifications of tokens.
type tokens struct {
	verified *counters[tokenKey]
}

func newTokens(to *prometheus.Registry) *tokens {
	t := &tokens{verified: newCounters(opts("token_verifications_total", "Tokens of requests, by the name of their line in [tokens] and the outcome of the verification: valid, expired, invalid or unavailable."),
		[]string{"token", "outcome"}, func(k tokenKey) []string { return []string{k.token, k.outcome} },
		maxTokens, func(k tokenKey) tokenKey { return tokenKey{noToken, k.outcome} })}
	to.MustRegister(t.verified)
	t.verified.of(tokenKey{noToken, "valid"}) // export it from the start
	return t
}

// Verified counts a verification of a token.
func (m *Metrics) Verified(token, outcome string) {
	m.tokens.verified.of(tokenKey{token, outcome}).Inc()
}

// KeySet is the state of keys that come by address.
type KeySet struct {
	Token             string        // the name of a line in [tokens]
	Age               time.Duration // since the last good fetch, or since the first attempt
	Fetches, Failures uint64
}

// WatchTokens registers the number of remembered tokens and the keys by address, which are
// called at every scrape.
func (m *Metrics) WatchTokens(remembered func() int, keys func() []KeySet) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(gauge("tokens_remembered", "Valid tokens that are remembered, so that they need no second signature check."),
		func() float64 { return float64(remembered()) }), keyCollector{
		age:     prometheus.NewDesc(prometheus.BuildFQName(namespace, "", "token_keys_age_seconds"), "Time since the keys of a token were last fetched from their address, or were first wanted.", []string{"token"}, nil),
		fetches: prometheus.NewDesc(prometheus.BuildFQName(namespace, "", "token_key_fetches_total"), "Fetches of the keys of a token from their address, by outcome: ok or failed.", []string{"token", "outcome"}, nil),
		keys:    keys,
	})
}

// keyCollector exports the state of keys that come by address.
type keyCollector struct {
	age, fetches *prometheus.Desc
	keys         func() []KeySet
}

// Describe implements prometheus.Collector.
func (c keyCollector) Describe(to chan<- *prometheus.Desc) {
	to <- c.age
	to <- c.fetches
}

// Collect implements prometheus.Collector.
func (c keyCollector) Collect(to chan<- prometheus.Metric) {
	sets := c.keys()
	if len(sets) == 0 {
		sets = []KeySet{{Token: noToken}}
	}
	for _, s := range sets {
		to <- prometheus.MustNewConstMetric(c.age, prometheus.GaugeValue, s.Age.Seconds(), s.Token)
		to <- prometheus.MustNewConstMetric(c.fetches, prometheus.CounterValue, float64(s.Fetches-s.Failures), s.Token, "ok")
		to <- prometheus.MustNewConstMetric(c.fetches, prometheus.CounterValue, float64(s.Failures), s.Token, "failed")
	}
}
