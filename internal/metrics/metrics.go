// Package metrics defines every metric of the service, with help and labels.
// Label values are names defined by koalagate and numbers of rules, never values
// sent by a caller.
package metrics

import (
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/koalagate/koalagate/internal/printable"
)

// namespace is the prefix of every metric name.
const namespace = "koalagate"

// Maximum numbers of series. Rule files change during the life of a process, so
// the rule numbers it has seen have no other bound.
const (
	maxRules = 1000 // pairs of a rule and a verdict
	maxDoors = 100  // pairs of a door and a verdict
)

// Metrics contains the metrics of one process. It is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry

	decisions *counters[decisionKey]
	rules     *counters[ruleKey]
	shadows   *counters[ruleKey]
	marks     *counters[ruleKey]
	evaluated prometheus.Histogram
	failures  prometheus.Counter
	rescued   prometheus.Counter
	degraded  prometheus.Gauge
	dropped   prometheus.Counter
	damaged   prometheus.Counter
	lag       prometheus.Histogram
	evicted   prometheus.Counter
	modes     *prometheus.GaugeVec
	bounds    *prometheus.CounterVec
	perRule   *ruleCollector
	servers   *servers
	trips     *trips
	waits     *series[ruleKey, prometheus.Observer] // without a verdict
	receipts  *receipts
	tokens    *tokens
	excepted  *prometheus.CounterVec

	generation prometheus.Gauge
	hash       *prometheus.GaugeVec
	published  *prometheus.GaugeVec
	active     prometheus.Gauge
	loadedAt   prometheus.Gauge
	reloadOK   prometheus.Gauge
	failedAt   prometheus.Gauge
	restored   prometheus.Gauge
	reloads    *prometheus.CounterVec
	changes    *prometheus.CounterVec
	entries    *prometheus.CounterVec
}

// Build identifies the running program.
type Build struct{ Version, Revision string }

// New returns all metrics, in their own registry.
func New(b Build) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		perRule:  newRuleCollector(),
		decisions: newCounters(opts("decisions_total", "Decisions by door and verdict: allow, deny, challenge, observed-deny, observed-challenge, off, unavailable (no store answered) or invalid (the call could not be decided)."),
			[]string{"door", "verdict"}, func(k decisionKey) []string { return []string{k.door, k.verdict} },
			maxDoors, func(k decisionKey) decisionKey { return decisionKey{"other", k.verdict} }),
		rules:   countersOfRules("rule_decisions_total", "Decisions made by a rule, by its number, name and verdict, from the first one on. Beyond a thousand series, rules share the number other.", "verdict"),
		shadows: countersOfRules("rule_shadow_total", "Decisions that a rule with shadow=1 would have made, by its number, name and verdict.", "verdict"),
		marks:   countersOfRules("rule_marks_total", "Parameter sets that a rule with mark= marked instead of refusing them, by its number, name and mark.", "mark"),
		evaluated: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "evaluate_seconds",
			Help:    "Time that the store took for one decision with counters, including the rescue store.",
			Buckets: []float64{.00001, .000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .02, .05, .1, .25},
		}),
		failures: prometheus.NewCounter(opts("store_errors_total", "Decisions that failed because no store answered.")),
		rescued:  prometheus.NewCounter(opts("rescued_total", "Decisions made by the in-process store instead of Redis.")),
		degraded: prometheus.NewGauge(gauge("store_degraded", "1 while the in-process store decides instead of Redis.")),
		dropped:  prometheus.NewCounter(opts("decision_log_dropped_total", "Decisions dropped from the decision log.")),
		damaged:  prometheus.NewCounter(opts("damaged_values_total", "Keys in Redis that did not contain valid counters: modified or written by another program.")),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "scheduler_lag_seconds",
			Help:    "Lateness of the timers of this process while it awaits replies of Redis, measured every 2 ms: several milliseconds mean that it is short of CPU.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .02, .05, .1, .25},
		}),
		evicted: prometheus.NewCounter(opts("redis_evicted_keys_total", "Keys that Redis evicted, which may be counters: their limits started from zero. Every instance counts them all.")),
		waits: newSeries(prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "wait_seconds",
			Help:    "Time until the turn of an admitted call, by the number and name of the rule with wait= that made it wait.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"rule", "name"}), func(k ruleKey) []string { return ruleLabels(k)[:2] }, maxRules, otherRule),
		excepted:   prometheus.NewCounterVec(opts("exceptions_applied_total", "Parameter sets to which an exception applied, by what it does: count, allow, deny or ban. A set to which several apply is counted for each."), []string{"what"}),
		modes:      prometheus.NewGaugeVec(gauge("door_mode", "1 for the current mode of a door: enforce, observe or off."), []string{"door", "mode"}),
		bounds:     prometheus.NewCounterVec(opts("bounds_total", "Connections and calls ended by a bound of the service, by its name. Above zero, a peer is hostile or broken, or the bound is too low."), []string{"bound"}),
		generation: prometheus.NewGauge(gauge("rules_generation", "Generation of the active rules: 1 at startup, increased by each change.")),
		hash:       prometheus.NewGaugeVec(gauge("rules_info", "1 for the active rules, by the SHA-256 of their files and word lists: instances with the same hash decide alike."), []string{"hash"}),
		published:  prometheus.NewGaugeVec(gauge("published_rules_info", "1 for the published version of the rules that is active, by its number, author and note. The number is 0 for rules of files."), []string{"version", "author", "note"}),
		active:     prometheus.NewGauge(gauge("rules", "Number of active rules.")),
		loadedAt:   prometheus.NewGauge(gauge("rules_loaded_timestamp_seconds", "Time when the active rules were loaded.")),
		reloadOK:   prometheus.NewGauge(gauge("rules_last_load_ok", "1 if the current rule files are active, 0 if they are invalid and older rules stay active.")),
		failedAt:   prometheus.NewGauge(gauge("rules_last_error_timestamp_seconds", "Time when rule files were last found invalid, 0 for never.")),
		restored:   prometheus.NewGauge(gauge("rules_restored", "1 while the active rules come from state_dir because the rule files were invalid at startup.")),
		reloads:    prometheus.NewCounterVec(opts("rules_loads_total", "Loads of changed rule files, by outcome: ok or refused."), []string{"outcome"}),
		changes:    prometheus.NewCounterVec(opts("rules_changes_total", "Rules that reloads changed, by change: added, removed or changed."), []string{"change"}),
		entries:    prometheus.NewCounterVec(opts("list_entries_changes_total", "Entries of word lists that reloads changed, by change: added or removed."), []string{"change"}),
	}
	m.rules.isGone, m.shadows.isGone, m.marks.isGone, m.waits.isGone = m.perRule.isGone, m.perRule.isGone, m.perRule.isGone, m.perRule.isGone
	m.registry.MustRegister(
		m.decisions, m.rules, m.shadows, m.marks, m.evaluated, m.failures, m.rescued, m.degraded, m.dropped, m.damaged, m.lag, m.evicted, m.waits, m.excepted, m.modes, m.bounds,
		m.generation, m.hash, m.published, m.active, m.loadedAt, m.reloadOK, m.failedAt, m.restored, m.reloads, m.changes, m.entries,
		m.perRule, buildInfo(b),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.servers, m.receipts, m.tokens = newServers(m.registry), newReceipts(m.registry), newTokens(m.registry)
	m.Reloaded(0, 0, 0, 0, 0)
	m.Published(0, "", "")
	for _, outcome := range []string{outcomeOK, outcomeRefused} {
		m.reloads.WithLabelValues(outcome) // export both from the start
	}
	m.exportRules()
	return m
}

// WatchWaiting registers the number of calls that wait for their turns.
func (m *Metrics) WatchWaiting(waiting func() int) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(gauge("waiting_calls", "Calls that wait for their turns, by rules with wait=."),
		func() float64 { return float64(waiting()) }))
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
	o := gauge("build_info", "Always 1; the labels identify the running program.")
	o.ConstLabels = prometheus.Labels{"version": b.Version, "revision": b.Revision, "goversion": runtime.Version()}
	return prometheus.NewGaugeFunc(o, func() float64 { return 1 })
}

// WatchMemory registers metrics of the in-process store: identities returns the
// number of identities with their own counters, and shared the number of hits
// counted on shared counters. Both are called at every scrape.
func (m *Metrics) WatchMemory(identities func() int, shared func() uint64) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(gauge("memory_identities", "Identities with their own counters in process; at most max_identities."), func() float64 { return float64(identities()) }),
		prometheus.NewCounterFunc(opts("memory_shared_total", "Hits counted in process on a counter that several identities share because of max_identities, and occasions on which an Envoy got no share because of it."), func() float64 { return float64(shared()) }))
}

// Handler returns a handler that serves the metrics in the Prometheus formats.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// DecisionsDropped counts n decisions dropped from the decision log.
func (m *Metrics) DecisionsDropped(n int64) { m.dropped.Add(float64(n)) }

// Damaged counts a key in Redis that did not contain valid counters.
func (m *Metrics) Damaged() { m.damaged.Inc() }

// Evicted counts n keys that Redis evicted.
func (m *Metrics) Evicted(n int64) { m.evicted.Add(float64(n)) }

// Lagged records the lateness of a timer of this process.
func (m *Metrics) Lagged(late time.Duration) { m.lag.Observe(late.Seconds()) }

// DoorMode records the mode of a door.
func (m *Metrics) DoorMode(door, mode string) {
	m.modes.DeletePartialMatch(prometheus.Labels{"door": door})
	m.modes.WithLabelValues(door, mode).Set(1)
}

// WatchBound exports the count of a bound, which is 0 until Bounded is called.
func (m *Metrics) WatchBound(name string) { m.bounds.WithLabelValues(name) }

// Bounded counts a connection or a call that a bound has ended.
func (m *Metrics) Bounded(name string) { m.bounds.WithLabelValues(name).Inc() }

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Loaded records that a generation with this content hash and number of rules
// became active.
func (m *Metrics) Loaded(generation uint64, hash string, rules int, at time.Time) {
	m.generation.Set(float64(generation))
	m.hash.Reset()
	m.hash.WithLabelValues(hash).Set(1)
	m.active.Set(float64(rules))
	m.loadedAt.Set(seconds(at))
	m.reloadOK.Set(1)
	m.reloads.WithLabelValues(outcomeOK).Inc()
}

// Published records which published version is active. Its author and note are any texts.
func (m *Metrics) Published(version uint64, author, note string) {
	m.published.Reset()
	m.published.WithLabelValues(strconv.FormatUint(version, 10), printable.Text(author), printable.Text(note)).Set(1)
}

// Reloaded counts what a reload changed: rules that were added, removed or changed, and
// entries of word lists that were added or removed.
func (m *Metrics) Reloaded(added, removed, changed, entriesAdded, entriesRemoved int) {
	m.changes.WithLabelValues(changeAdded).Add(float64(added))
	m.changes.WithLabelValues(changeRemoved).Add(float64(removed))
	m.changes.WithLabelValues(changeChanged).Add(float64(changed))
	m.entries.WithLabelValues(changeAdded).Add(float64(entriesAdded))
	m.entries.WithLabelValues(changeRemoved).Add(float64(entriesRemoved))
}

// The kinds of changes by a reload.
const (
	changeAdded   = "added"
	changeRemoved = "removed"
	changeChanged = "changed"
)

// Restoring records whether the active rules were saved by an earlier run.
func (m *Metrics) Restoring(is bool) { m.restored.Set(number(is)) }

// Refused records that rule files were invalid, and older rules stay active.
func (m *Metrics) Refused(at time.Time) {
	m.reloadOK.Set(0)
	m.failedAt.Set(seconds(at))
	m.reloads.WithLabelValues(outcomeRefused).Inc()
}

// Restored records that the files match the active rules again after they had
// been invalid.
func (m *Metrics) Restored() { m.reloadOK.Set(1) }
