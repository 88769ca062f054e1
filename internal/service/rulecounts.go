package service

import (
	"sync/atomic"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/heavy"
	"github.com/koalagate/koalagate/internal/metrics"
	"github.com/koalagate/koalagate/rules"
)

// ruleCounts counts by rule what decisions did, and passes the identities of their calls
// on to the search for the heaviest. Of the active generation and the one
// before it, which calls in progress may still use, it finds the counts of a rule by
// its place.
type ruleCounts struct {
	metrics *metrics.Metrics
	heavy   *heavy.Recorder
	free    float64 // share of a limit below which what remains of it is near
	active  atomic.Pointer[countedRules]
}

// countedRules are the counts of a rule set, index for index.
type countedRules struct {
	set    *rules.Set
	counts []*metrics.Rule
	before *countedRules // without a predecessor of its own
}

func newRuleCounts(m *metrics.Metrics, h *heavy.Recorder, nearLimitRatio float64) *ruleCounts {
	return &ruleCounts{metrics: m, heavy: h, free: 1 - nearLimitRatio}
}

// load starts to count by the rules of a set. It must be called before the set decides,
// by one goroutine at a time.
func (r *ruleCounts) load(set *rules.Set) {
	list := make([]metrics.RuleLabels, len(set.Rules))
	for i, rule := range set.Rules {
		list[i] = metrics.RuleLabels{Number: rule.Return, Name: rule.Name}
	}
	next := &countedRules{set: set, counts: r.metrics.LoadRules(list)}
	if before := r.active.Load(); before != nil {
		next.before = &countedRules{set: before.set, counts: before.counts}
	}
	r.active.Store(next)
}

// observe counts the answer to an input; see engine.ObserveMatches.
func (r *ruleCounts) observe(c *engine.Call, set *rules.Set, matches []rules.Match, a *engine.Answer) {
	of := r.active.Load()
	if of.set != set {
		if of = of.before; of == nil || of.set != set {
			return // the call began two reloads ago
		}
	}
	if len(matches) == 0 {
		return
	}
	if isImported(matches[0].Rule) {
		of = nil // limitCounts counts them
	}
	calls := r.heavy.Begin(c.Door)
	if a.Verdict != rules.Allow || a.Overruled() {
		of.refuse(&calls, matches, a)
	} else {
		near := a.Limited && float64(a.Quota.Remaining) < r.free*float64(a.Quota.Limit)
		for i := range matches {
			m := &matches[i]
			isNear := near && m.Rule == a.Quota.Rule
			if of != nil {
				of.counts[m.Place].Admitted(isNear)
			}
			calls.Add(heavy.Admitted, m)
			if isNear {
				calls.Add(heavy.Near, m)
			}
		}
	}
	calls.End()
	if len(a.Shadow) > 0 && of != nil {
		of.shadow(matches, a)
	}
}

// refuse counts an input that was refused; without counts of rules only its identities.
func (c *countedRules) refuse(calls *heavy.Batch, matches []rules.Match, a *engine.Answer) {
	for i := range matches {
		if m := &matches[i]; m.Rule == a.Decider || isRefusing(a, m.Rule) {
			if c != nil {
				c.counts[m.Place].Refused()
			}
			calls.Add(heavy.Refused, m)
		} else if c != nil {
			c.counts[m.Place].PassedOver()
		}
	}
}

// isRefusing reports whether a rule is one of several that refuse an input.
func isRefusing(a *engine.Answer, r *rules.Rule) bool {
	for _, other := range a.Refusing {
		if other == r && r.Result.Verdict() != rules.Allow {
			return true
		}
	}
	return false
}

// shadow counts the shadow rules that would have refused.
func (c *countedRules) shadow(matches []rules.Match, a *engine.Answer) {
	for i := range a.Shadow {
		if a.Shadow[i].Verdict == rules.Allow {
			continue
		}
		for j := range matches {
			if matches[j].Rule == a.Shadow[i].Rule {
				c.counts[matches[j].Place].ShadowRefused()
			}
		}
	}
}
