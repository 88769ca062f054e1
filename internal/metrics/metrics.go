// Package metrics holds every metric of the service, its help and its labels.
// Labels are names of ours and numbers of rules, never a value that a caller
// sent.
package metrics

import (
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// namespace begins every name of ours.
const namespace = "koalagate"

// The bounds of what gets a series of its own. Rule files change while a
// process lives, so the numbers that it has seen have no other bound.
const (
	maxRules = 1000 // pairs of a rule and a verdict
	maxDoors = 100  // pairs of a door and a verdict
)

// Metrics are the metrics of one process. It is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry

	decisions *series[decisionKey]
	rules     *series[ruleKey]
	shadows   *series[ruleKey]
	evaluated prometheus.Histogram
	failures  prometheus.Counter
	rescued   prometheus.Counter
	degraded  prometheus.Gauge
	dropped   prometheus.Counter
	damaged   prometheus.Counter
	modes     *prometheus.GaugeVec

	generation prometheus.Gauge
	hash       *prometheus.GaugeVec
	inForce    prometheus.Gauge
	loadedAt   prometheus.Gauge
	reloadOK   prometheus.Gauge
	failedAt   prometheus.Gauge
	restored   prometheus.Gauge
	reloads    *prometheus.CounterVec
}

type decisionKey struct{ door, verdict string }

type ruleKey struct {
	number  int64
	verdict string
}

// Build says what program runs.
type Build struct{ Version, Revision string }

// New registers all metrics on a registry of their own.
func New(b Build) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		decisions: newSeries(opts("decisions_total", "Decisions by door and verdict: allow, deny, challenge, observed-deny, observed-challenge, off, unavailable (no store could answer) or invalid (the call could not be decided)."),
			[]string{"door", "verdict"}, func(k decisionKey) []string { return []string{k.door, k.verdict} },
			maxDoors, func(k decisionKey) decisionKey { return decisionKey{"other", k.verdict} }),
		rules: newSeries(opts("rule_decisions_total", "Decisions that a rule made, by its number and verdict. Beyond a thousand of these, rules share the number other."),
			[]string{"rule", "verdict"}, ruleLabels, maxRules, otherRule),
		shadows: newSeries(opts("rule_shadow_total", "Decisions that a rule with shadow=1 would have made, by its number and verdict."),
			[]string{"rule", "verdict"}, ruleLabels, maxRules, otherRule),
		evaluated: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "evaluate_seconds",
			Help:    "Time that the store took for one decision with counters, the rescue store included.",
			Buckets: []float64{.00001, .000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .02, .05, .1, .25},
		}),
		failures:   prometheus.NewCounter(opts("store_errors_total", "Decisions that no store could make.")),
		rescued:    prometheus.NewCounter(opts("rescued_total", "Decisions that the in-process store made in place of Redis.")),
		degraded:   prometheus.NewGauge(gauge("store_degraded", "1 while the in-process store stands in for Redis.")),
		dropped:    prometheus.NewCounter(opts("decision_log_dropped_total", "Decisions that are missing in the decision log.")),
		damaged:    prometheus.NewCounter(opts("damaged_values_total", "Keys met in Redis that held no counters: tampered with, or somebody else's.")),
		modes:      prometheus.NewGaugeVec(gauge("door_mode", "1 for the mode that a door is in: enforce, observe or off."), []string{"door", "mode"}),
		generation: prometheus.NewGauge(gauge("rules_generation", "Generation of the rules in force: 1 for those of the start, one more with each change.")),
		hash:       prometheus.NewGaugeVec(gauge("rules_info", "1 for the rules in force, by the SHA-256 of their files and word lists: instances with the same hash decide the same."), []string{"hash"}),
		inForce:    prometheus.NewGauge(gauge("rules", "Number of rules in force.")),
		loadedAt:   prometheus.NewGauge(gauge("rules_loaded_timestamp_seconds", "When the rules in force were loaded.")),
		reloadOK:   prometheus.NewGauge(gauge("rules_last_load_ok", "1 if the newest rule files are in force, 0 if they were refused and older ones hold.")),
		failedAt:   prometheus.NewGauge(gauge("rules_last_error_timestamp_seconds", "When rule files were last refused, 0 for never.")),
		restored:   prometheus.NewGauge(gauge("rules_restored", "1 while the rules in force are those of state_dir, since the rule files were refused at the start.")),
		reloads:    prometheus.NewCounterVec(opts("rules_loads_total", "Loads of rule files that changed, by outcome: ok or refused."), []string{"outcome"}),
	}
	m.registry.MustRegister(
		m.decisions.vec, m.rules.vec, m.shadows.vec, m.evaluated, m.failures, m.rescued, m.degraded, m.dropped, m.damaged, m.modes,
		m.generation, m.hash, m.inForce, m.loadedAt, m.reloadOK, m.failedAt, m.restored, m.reloads,
		buildInfo(b),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, outcome := range []string{outcomeOK, outcomeRefused} {
		m.reloads.WithLabelValues(outcome) // so that both are there before they happen
	}
	return m
}

// The outcomes of a load.
const (
	outcomeOK      = "ok"
	outcomeRefused = "refused"
)

func opts(name, help string) prometheus.CounterOpts {
	return prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}
}

func gauge(name, help string) prometheus.GaugeOpts {
	return prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}
}

func buildInfo(b Build) prometheus.Collector {
	o := gauge("build_info", "Always 1; its labels say what program runs.")
	o.ConstLabels = prometheus.Labels{"version": b.Version, "revision": b.Revision, "goversion": runtime.Version()}
	return prometheus.NewGaugeFunc(o, func() float64 { return 1 })
}

// WatchMemory has the metrics ask the in-process store how many identities have
// counters of their own, and how often something was counted on a shared one.
func (m *Metrics) WatchMemory(identities func() int, shared func() uint64) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(gauge("memory_identities", "Identities that have counters of their own in process; at most max_identities."), func() float64 { return float64(identities()) }),
		prometheus.NewCounterFunc(opts("memory_shared_total", "Hits that were counted in process on a counter that several identities share, for want of room under max_identities."), func() float64 { return float64(shared()) }))
}

// Handler serves the metrics in the formats of Prometheus.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// Verdicts of decisions that are none of the rule language's.
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

// Rescued counts a decision of the in-process store in place of Redis.
func (m *Metrics) Rescued() { m.rescued.Inc() }

// Degraded notes whether the in-process store stands in for Redis.
func (m *Metrics) Degraded(is bool) { m.degraded.Set(number(is)) }

// DecisionsDropped counts decisions that are missing in the decision log.
func (m *Metrics) DecisionsDropped(n int64) { m.dropped.Add(float64(n)) }

// Damaged counts a key in Redis that held no counters.
func (m *Metrics) Damaged() { m.damaged.Inc() }

// RedisCalls is how the decisions by Redis came about.
type RedisCalls struct {
	Decisions  int64 // asked of Redis
	Scripts    int64 // the script calls that they took
	Remembered int64 // refusals that were told without Redis
	Stranded   int64 // parts of refused decisions that were not given back
}

// WatchRedis has the metrics ask for the calls of Redis. It is called once.
func (m *Metrics) WatchRedis(calls func() RedisCalls) {
	counter := func(name, help string, of func(RedisCalls) int64) prometheus.Collector {
		return prometheus.NewCounterFunc(opts(name, help), func() float64 { return float64(of(calls())) })
	}
	m.registry.MustRegister(
		counter("redis_decisions_total", "Decisions that Redis was asked for.", func(c RedisCalls) int64 { return c.Decisions }),
		counter("redis_script_calls_total", "Script calls that these decisions took: decisions for each of them are the size of a batch.", func(c RedisCalls) int64 { return c.Scripts }),
		counter("remembered_refusals_total", "Refusals that were told again without asking Redis.", func(c RedisCalls) int64 { return c.Remembered }),
		counter("redis_stranded_parts_total", "Parts of refused decisions over several slots of a Cluster that were not given back: their hits may stay until their windows end.", func(c RedisCalls) int64 { return c.Stranded }))
}

// DoorMode notes that a door is in a mode.
func (m *Metrics) DoorMode(door, mode string) {
	m.modes.DeletePartialMatch(prometheus.Labels{"door": door})
	m.modes.WithLabelValues(door, mode).Set(1)
}

// RuleDecided counts a decision that the rule with this number made.
func (m *Metrics) RuleDecided(rule int64, verdict string) {
	m.rules.of(ruleKey{rule, verdict}).Inc()
}

// ShadowDecided counts a decision that a shadow rule would have made.
func (m *Metrics) ShadowDecided(rule int64, verdict string) {
	m.shadows.of(ruleKey{rule, verdict}).Inc()
}

// Evaluated notes how long the store took for one decision.
func (m *Metrics) Evaluated(d time.Duration) { m.evaluated.Observe(d.Seconds()) }

// Loaded notes that a generation of so many rules came into force, and the
// hash of their content.
func (m *Metrics) Loaded(generation uint64, hash string, rules int, at time.Time) {
	m.generation.Set(float64(generation))
	m.hash.Reset()
	m.hash.WithLabelValues(hash).Set(1)
	m.inForce.Set(float64(rules))
	m.loadedAt.Set(seconds(at))
	m.reloadOK.Set(1)
	m.reloads.WithLabelValues(outcomeOK).Inc()
}

// Restoring notes whether the rules in force are those that were kept of an
// earlier run.
func (m *Metrics) Restoring(is bool) { m.restored.Set(number(is)) }

// Refused notes that rule files were refused, and older rules still hold.
func (m *Metrics) Refused(at time.Time) {
	m.reloadOK.Set(0)
	m.failedAt.Set(seconds(at))
	m.reloads.WithLabelValues(outcomeRefused).Inc()
}

// Restored notes that the files say again what is in force, after they had
// been refused.
func (m *Metrics) Restored() { m.reloadOK.Set(1) }

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// otherRule is the key of the rules that have no series of their own: 0 is no
// rule's number.
func otherRule(k ruleKey) ruleKey { return ruleKey{0, k.verdict} }

func ruleLabels(k ruleKey) []string {
	if k.number == 0 {
		return []string{"other", k.verdict}
	}
	return []string{strconv.FormatInt(k.number, 10), k.verdict}
}
