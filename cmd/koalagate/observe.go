package main

import (
	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/metrics"
	"github.com/koalagate/koalagate/internal/reload"
)

// outcome is the word for a decision in metrics: its verdict, and what it would
// have been where the door's mode has overruled it.
func outcome(d *engine.Decision) string {
	for i := range d.Answers {
		if a := &d.Answers[i]; a.Overruled() || a.Mode == engine.ModeOff {
			return a.DecisionWord()
		}
	}
	return d.Verdict.String()
}

// observeDecisions makes the function that counts decisions, writes them down,
// and logs those that were overruled.
func observeDecisions(m *metrics.Metrics, observed *observedLog, decisions *decisionLog) func(*engine.Call, *engine.Decision, error) {
	return func(c *engine.Call, d *engine.Decision, err error) {
		decisions.observe(c, d, err)
		switch {
		case err != nil && c.Fault != nil, engine.IsInvalid(err):
			m.Decided(c.Door, metrics.Invalid)
			return
		case err != nil:
			return // the caller went away: nothing was decided
		case d.Unavailable:
			m.Decided(c.Door, metrics.Unavailable)
			return
		}
		m.Decided(c.Door, outcome(d))
		observed.tell(c, d)
		if d.Degraded {
			m.Rescued()
		}
		for i := range d.Answers {
			observeAnswer(m, &d.Answers[i])
		}
	}
}

func observeAnswer(m *metrics.Metrics, a *engine.Answer) {
	if a.Decider != nil {
		m.RuleDecided(a.Decider.Return, a.DecisionWord())
	}
	for i := range a.Shadow {
		m.ShadowDecided(a.Shadow[i].Rule.Return, a.Shadow[i].Verdict.String())
	}
}

// observeRules makes the function that follows what becomes of rule files. It
// is called from one goroutine.
func observeRules(m *metrics.Metrics) func(reload.State) {
	var before reload.State
	return func(now reload.State) {
		m.Restoring(now.Restored)
		switch {
		case now.Generation != before.Generation:
			m.Loaded(now.Generation, now.Hash, now.Rules, now.LoadedAt)
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
