package service

import (
	"sync/atomic"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/adminapi"
	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/exceptions"
	"github.com/koalagate/koalagate/internal/heavy"
	"github.com/koalagate/koalagate/internal/metrics"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/internal/traffic"
	"github.com/koalagate/koalagate/rules"
)

// outcome returns the label of a decision in metrics: its verdict, or the DecisionWord
// of an answer that the mode of the door overruled.
func outcome(d *engine.Decision) string {
	for i := range d.Answers {
		if a := &d.Answers[i]; a.Overruled() || a.Mode == engine.ModeOff {
			return a.DecisionWord()
		}
	}
	return d.Verdict.String()
}

// observeDecisions returns a function that counts decisions, writes them to the
// decision log, and logs overruled decisions and a sample of the refusals.
func observeDecisions(m *metrics.Metrics, observed *observedLog, refused *refusalLog, decisions *decisionLog) func(*engine.Call, *engine.Decision, error) {
	return func(c *engine.Call, d *engine.Decision, err error) {
		if decisions.log != nil {
			decisions.log.Observe(c, d, err)
		}
		switch {
		case err != nil && c.Fault != nil, engine.IsInvalid(err):
			m.Decided(c.Door, metrics.Invalid)
			return
		case err != nil:
			return // the caller ended the call: nothing was decided
		case d.Unavailable:
			m.Decided(c.Door, metrics.Unavailable)
			return
		}
		word := outcome(d)
		m.Decided(c.Door, word)
		switch {
		case d.Verdict != rules.Allow:
			refused.log(c, d)
		case word != rules.Allow.String():
			observed.log(c, d)
		}
		if d.Degraded {
			m.Rescued()
		}
		if d.Receipt != "" {
			m.Issued()
		}
		if d.Waiter != nil {
			m.Waited(d.Waiter.Return, d.Waiter.Name, d.Wait)
		}
		for i := range d.Answers {
			observeAnswer(m, &d.Answers[i])
		}
	}
}

// isImported reports whether a rule counts by an imported limit: it has no number. Metrics
// count imported limits by their statistics, see limitCounts.
func isImported(r *rules.Rule) bool { return r.Return == 0 }

func observeAnswer(m *metrics.Metrics, a *engine.Answer) {
	if a.Decider != nil && !isImported(a.Decider) {
		m.RuleDecided(a.Decider.Return, a.Decider.Name, a.DecisionWord())
	}
	for _, x := range a.Exceptions {
		m.Excepted(exceptions.WordOf(x.Kind))
	}
	for _, r := range a.Marked {
		m.Marked(r.Return, r.Name, r.Mark)
	}
	for i := range a.Shadow {
		s := &a.Shadow[i]
		if isImported(s.Rule) {
			continue
		}
		m.ShadowDecided(s.Rule.Return, s.Rule.Name, s.Verdict.String())
	}
}

// observeMatches returns a function that counts the answers to inputs by rule, and passes the
// refused ones to remember; see engine.ObserveMatches.
func observeMatches(counts *ruleCounts, remember func(*engine.Call, []rules.Match, *engine.Answer)) func(*engine.Call, *rules.Set, []rules.Match, *engine.Answer) {
	return func(c *engine.Call, set *rules.Set, matches []rules.Match, a *engine.Answer) {
		counts.observe(c, set, matches, a)
		if a.Verdict != rules.Allow || a.Overruled() {
			remember(c, matches, a)
		}
	}
}

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

// of returns the counts of a set, nil if the call began two reloads ago, or before the first.
func (r *ruleCounts) of(set *rules.Set) *countedRules {
	of := r.active.Load()
	if of != nil && of.set != set {
		of = of.before
	}
	if of == nil || of.set != set {
		return nil
	}
	return of
}

// observeReport counts the hits that a gateway has decided by itself as decisions, and by rule;
// see engine.ObserveReports.
func (r *ruleCounts) observeReport(c *engine.Call, set *rules.Set, matches []rules.Match, u *engine.Usage, a *engine.Assignment) {
	const most = 1 << 32 // of a report
	allowed, denied := min(u.Allowed, most), min(u.Denied, most)
	r.metrics.Reported(c.Door, allowed, denied)
	of := r.of(set)
	if of == nil {
		return
	}
	r.heavy.AddHits(heavy.Admitted, c.Door, matches, allowed)
	for i := range matches {
		m := &matches[i]
		if m.Rule != a.Rule {
			of.counts[m.Place].Reported(allowed, 0, denied)
			continue
		}
		of.counts[m.Place].Reported(allowed, denied, 0)
		r.heavy.AddHits(heavy.Refused, c.Door, matches[i:i+1], denied)
	}
}

// observe counts the answer to an input; see engine.ObserveMatches.
func (r *ruleCounts) observe(c *engine.Call, set *rules.Set, matches []rules.Match, a *engine.Answer) {
	of := r.of(set)
	if of == nil || len(matches) == 0 {
		return
	}
	if isImported(matches[0].Rule) {
		of = nil // limitCounts counts them
	}
	if a.Verdict != rules.Allow || a.Overruled() {
		r.refuse(of, c.Door, matches, a)
	} else {
		r.heavy.Add(heavy.Admitted, c.Door, matches)
		near := a.Limited && float64(a.Quota.Remaining) < r.free*float64(a.Quota.Limit)
		for i := range matches {
			m := &matches[i]
			isNear := near && m.Rule == a.Quota.Rule
			if of != nil {
				of.counts[m.Place].Admitted(isNear)
			}
			if isNear {
				r.heavy.Add(heavy.Near, c.Door, matches[i:i+1])
			}
		}
	}
	if len(a.Shadow) > 0 && of != nil {
		of.shadow(matches, a)
	}
}

// refuse counts an input that was refused; without counts of rules only its identities.
func (r *ruleCounts) refuse(of *countedRules, door string, matches []rules.Match, a *engine.Answer) {
	for i := range matches {
		if m := &matches[i]; m.Rule == a.Decider || isRefusing(a, m.Rule) {
			if of != nil {
				of.counts[m.Place].Refused()
			}
			r.heavy.Add(heavy.Refused, door, matches[i:i+1])
		} else if of != nil {
			of.counts[m.Place].PassedOver()
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

// observeRules returns a function that records the state of the rules in metrics, and
// passes it on to gRPC health and to the subscribers of events. The function must be called
// by one goroutine at a time.
func (s *Service) observeRules() func(reload.State) {
	var before reload.State
	m := s.metrics
	return func(now reload.State) {
		if s.front != nil {
			s.front.SetServing(now.IsReady())
		}
		s.traffic.SendState(traffic.EventRules, adminapi.RulesEventOf(&now))
		if r := now.Release; r != nil {
			m.Published(r.Version, r.Author, r.Note)
		}
		m.Restoring(now.Restored)
		switch {
		case now.Generation != before.Generation:
			m.Loaded(now.Generation, now.Hash, now.Rules, now.LoadedAt)
			if c := now.Changes; c != nil {
				m.Reloaded(c.Added, c.Removed, c.Changed, c.EntriesAdded, c.EntriesRemoved)
			}
			if now.Restored {
				m.Refused(now.LastErrorAt)
			}
		case now.LastError != "":
			m.Refused(now.LastErrorAt)
		default:
			m.Restored()
		}
		before = now
	}
}

// mapped keeps the request of an input if the trial derives other parameters from it.
func (r *trials) mapped(q *door.Question, input int) {
	if o := r.observer.Load(); o != nil && o.derivesOtherwise(q.Rules()) {
		q.Keep(input, o.rules)
	}
}

// observing returns a hook that calls f and passes the decision on to the trial, which also gets the
// charges of a call that is reported with its other descriptors.
func (r *trials) observing(f func(*engine.Call, *engine.Decision, error)) func(*engine.Call, *engine.Decision, error) {
	return func(c *engine.Call, d *engine.Decision, err error) {
		if !c.Unobserved {
			f(c, d, err)
		}
		if o := r.observer.Load(); o != nil {
			o.trial.Observe(c, d, err)
		}
	}
}
