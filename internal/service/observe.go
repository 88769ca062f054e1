package service

import (
	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/adminapi"
	"github.com/koalagate/koalagate/internal/exceptions"
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
		decisions.observe(c, d, err)
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
		m.Decided(c.Door, outcome(d))
		observed.log(c, d)
		refused.log(c, d)
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
	for i := range a.Shadow {
		s := &a.Shadow[i]
		if isImported(s.Rule) {
			continue
		}
		m.ShadowDecided(s.Rule.Return, s.Rule.Name, s.Verdict.String())
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
			s.front.SetServing(isReady(&now))
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
