package main

import (
	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/metrics"
	"github.com/koalagate/koalagate/reload"
)

// observeDecisions makes the function that counts decisions.
func observeDecisions(m *metrics.Metrics) func(*engine.Call, *engine.Decision, error) {
	return func(c *engine.Call, d *engine.Decision, err error) {
		switch {
		case engine.IsInvalid(err):
			m.Decided(c.Door, metrics.Invalid)
			return
		case err != nil:
			return // the caller went away: nothing was decided
		case d.Unavailable:
			m.Decided(c.Door, metrics.Unavailable)
			return
		}
		m.Decided(c.Door, d.Verdict.String())
		if d.Degraded {
			m.Rescued()
		}
		for i := range d.Sets {
			observeAnswer(m, &d.Sets[i])
		}
	}
}

func observeAnswer(m *metrics.Metrics, a *engine.Answer) {
	if a.Decider != nil {
		m.RuleDecided(a.Decider.Return, a.Verdict.String())
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
		switch {
		case now.Generation != before.Generation:
			m.Loaded(now.Generation, now.Rules, now.LoadedAt)
		case now.LastError != "":
			m.Refused(now.LastErrorAt)
		default:
			m.Restored()
		}
		before = now
	}
}
