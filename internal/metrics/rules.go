package metrics

import (
	"cmp"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/koalagate/koalagate/internal/printable"
)

// maxRuleRows is the number of rules with their own series. Rule files may have a
// hundred thousand rules; those after the first maxRuleRows share the number other.
const maxRuleRows = 1000

// RuleLabels identify a rule in metrics.
type RuleLabels struct {
	Number int64  // return=
	Name   string // "" for a rule without a name
}

// ruleCollector exports the counts of the active rules. A rule that stays active over a
// reload keeps its counts; the series of a rule that is gone end, so that Prometheus
// marks them as stale.
type ruleCollector struct {
	matched, admitted, refused, near, shadow *prometheus.Desc

	loading sync.Mutex
	rows    atomic.Pointer[ruleRows] // replaced, never modified
}

// ruleRows are the counts of the active rules and imported limits.
type ruleRows struct {
	active map[RuleLabels]*Rule // nil before rules are loaded
	other  *Rule                // nil if every active rule has its own series
	limits map[string]*Rule     // imported limits by path, "" for those after the first thousand
}

func newRuleCollector() *ruleCollector {
	describe := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, []string{"rule", "name"}, nil)
	}
	c := &ruleCollector{
		matched:  describe("rule_matched_total", "Parameter sets for which the conditions of a rule held, by its number and name."),
		admitted: describe("rule_admitted_total", "Parameter sets that matched a rule and were admitted."),
		refused:  describe("rule_refused_total", "Parameter sets that a rule refused, also at doors that only observe."),
		near:     describe("rule_near_limit_total", "Parameter sets that were admitted and used more of the rule's limit than near_limit_ratio. Of several rules that match, the one with the fewest remaining hits is counted."),
		shadow:   describe("rule_shadow_refused_total", "Parameter sets that a rule would have refused without shadow=1."),
	}
	c.rows.Store(new(ruleRows))
	return c
}

// LoadRules makes these rules the active ones and returns their counts, index for
// index. Rules after the first thousand share counts.
func (m *Metrics) LoadRules(list []RuleLabels) []*Rule {
	c := m.perRule
	c.loading.Lock()
	defer c.loading.Unlock()
	before := c.rows.Load()
	next := &ruleRows{active: make(map[RuleLabels]*Rule, min(len(list), maxRuleRows)), limits: before.limits}
	rows := make([]*Rule, len(list))
	for i, labels := range list {
		if i >= maxRuleRows {
			next.other = cmp.Or(next.other, before.other, new(Rule))
			rows[i] = next.other
			continue
		}
		if rows[i] = before.active[labels]; rows[i] == nil {
			rows[i] = new(Rule)
		}
		next.active[labels] = rows[i]
	}
	c.rows.Store(next)
	return rows
}

// key returns the key under which a decision of a rule is counted. It returns false for a
// rule that a reload has removed while its call was in progress.
func (c *ruleCollector) key(number int64, name, verdict string) (ruleKey, bool) {
	k := ruleKey{number, name, verdict}
	switch rows := c.rows.Load(); {
	case rows.isActive(k):
		return k, true
	case rows.other != nil:
		return otherRule(k), true
	}
	return ruleKey{}, false
}

// isGone reports whether the rule of the key is no longer active.
func (c *ruleCollector) isGone(k ruleKey) bool { return k.number != 0 && !c.rows.Load().isActive(k) }

// isActive reports whether the rule of the key is active and has its own series. Before
// rules are loaded, every rule is.
func (r *ruleRows) isActive(k ruleKey) bool {
	return r.active == nil || r.active[RuleLabels{k.number, k.name}] != nil
}

// RuleTotals are the counts of a rule since it became active.
type RuleTotals struct {
	// RuleLabels have number 0 and no name for the rules after the first thousand, and
	// number 0 and a path as name for imported limits.
	RuleLabels

	Admitted, Refused, Near, Shadow uint64
}

// RuleTotals returns the counts of the active rules.
func (m *Metrics) RuleTotals() []RuleTotals {
	rows := m.perRule.rows.Load()
	list := make([]RuleTotals, 0, len(rows.active)+1)
	add := func(labels RuleLabels, r *Rule) {
		list = append(list, RuleTotals{labels, r.admitted.Load(), r.refused.Load(), r.near.Load(), r.shadow.Load()})
	}
	for labels, r := range rows.active {
		add(labels, r)
	}
	if rows.other != nil {
		add(RuleLabels{}, rows.other)
	}
	for path, r := range rows.limits {
		add(RuleLabels{Name: path}, r)
	}
	return list
}

// Describe implements prometheus.Collector.
func (c *ruleCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.matched, c.admitted, c.refused, c.near, c.shadow} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *ruleCollector) Collect(to chan<- prometheus.Metric) {
	rows := c.rows.Load()
	for labels, r := range rows.active {
		c.collect(to, r, strconv.FormatInt(labels.Number, 10), labels.Name)
	}
	if rows.other != nil {
		c.collect(to, rows.other, "other", "")
	}
	for path, r := range rows.limits {
		c.collect(to, r, importedRule, path)
	}
}

func (c *ruleCollector) collect(to chan<- prometheus.Metric, r *Rule, number, name string) {
	// In this order, so that matched is never less than another count of this scrape.
	near, shadow, admitted, refused := r.near.Load(), r.shadow.Load(), r.admitted.Load(), r.refused.Load()
	matched := admitted + refused + r.passedOver.Load()
	for _, one := range []struct {
		desc  *prometheus.Desc
		value uint64
	}{{c.matched, matched}, {c.admitted, admitted}, {c.refused, refused}, {c.near, near}, {c.shadow, shadow}} {
		to <- prometheus.MustNewConstMetric(one.desc, prometheus.CounterValue, float64(one.value), number, name)
	}
}

// importedRule is the label of imported limits, which have paths and no numbers.
const importedRule = "imported"

// LoadLimits makes the imported limits with these paths the active ones and returns their
// counts, index for index. Limits after the first thousand share counts, whose path is "", and so
// do limits whose paths, which are any text of a file or a control plane, are printed alike.
func (m *Metrics) LoadLimits(paths []string) []*Rule {
	c := m.perRule
	c.loading.Lock()
	defer c.loading.Unlock()
	next := *c.rows.Load()
	before := next.limits
	next.limits = make(map[string]*Rule, min(len(paths), maxRuleRows))
	rows := make([]*Rule, len(paths))
	for i, path := range paths {
		if i >= maxRuleRows {
			path = ""
		}
		path = printable.Text(path)
		if next.limits[path] == nil {
			next.limits[path] = cmp.Or(before[path], new(Rule))
		}
		rows[i] = next.limits[path]
	}
	c.rows.Store(&next)
	return rows
}

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

// ruleKey identifies a series of a rule: by its verdict, or by its mark.
type ruleKey struct {
	number        int64
	name, verdict string
}

// otherRule returns the key for rules without their own series: no rule has the
// number 0.
func otherRule(k ruleKey) ruleKey { return ruleKey{verdict: k.verdict} }

func ruleLabels(k ruleKey) []string {
	if k.number == 0 {
		return []string{"other", "", k.verdict}
	}
	return []string{strconv.FormatInt(k.number, 10), k.name, k.verdict}
}

// countersOfRules returns counters by the number and name of a rule, and another label.
func countersOfRules(name, help, label string) *counters[ruleKey] {
	return newCounters(opts(name, help), []string{"rule", "name", label}, ruleLabels, maxRules, otherRule)
}

// exportRules makes the families of single rules exist from the start, for alerts and dashboards
// about them.
func (m *Metrics) exportRules() {
	m.rules.add(otherRule(ruleKey{verdict: "deny"}))
	m.shadows.add(otherRule(ruleKey{verdict: "deny"}))
	m.marks.add(otherRule(ruleKey{}))
	m.waits.add(otherRule(ruleKey{}))
}

// RuleDecided counts a decision made by the active rule with this number and name, which
// may be empty.
func (m *Metrics) RuleDecided(rule int64, name, verdict string) {
	if k, ok := m.perRule.key(rule, name, verdict); ok {
		m.rules.of(k).Inc()
	}
}

// ShadowDecided counts a decision that a shadow rule would have made.
func (m *Metrics) ShadowDecided(rule int64, name, verdict string) {
	if k, ok := m.perRule.key(rule, name, verdict); ok {
		m.shadows.of(k).Inc()
	}
}

// Marked counts a parameter set that the active rule with this number and name, which may be
// empty, marked.
func (m *Metrics) Marked(rule int64, name, mark string) {
	if k, ok := m.perRule.key(rule, name, mark); ok {
		m.marks.of(k).Inc()
	}
}

// Waited records that the active rule with this number and name made an admitted call
// wait for its turn.
func (m *Metrics) Waited(rule int64, name string, wait time.Duration) {
	if k, ok := m.perRule.key(rule, name, ""); ok {
		m.waits.of(k).Observe(wait.Seconds())
	}
}
