package ratelimit

import (
	"context"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/dropin/imported"
	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/rules"
)

// look is the source of the limit of one descriptor, for a question about its counter.
type look struct{ match rules.Match }

// Match implements engine.Source.
func (l *look) Match(_ int, m *rules.Matches) { m.List = append(m.List[:0], l.match) }

// Conclude implements engine.Source: one limit alone decides.
func (l *look) Conclude(*engine.Decision) {}

// Look returns the limit of a descriptor and the state of its counter. It counts
// nothing, not even in the statistics. The error is one of the store.
func (s *Limits) Look(ctx context.Context, domain string, entries []mapping.Entry) (*imported.Look, error) {
	set := s.options.Current()
	if set == nil {
		return &imported.Look{Reason: "no limits are loaded yet, so that every call fails"}, nil
	}
	var m envoylimits.Match
	set.Match(domain, entries, &m)
	found := &imported.Look{Path: m.Path, Limit: m.Limit}
	switch {
	case found.Limit == nil:
		found.Reason = set.Reason(domain, entries, &m)
		return found, nil
	case found.Limit.Unlimited:
		return found, nil
	}
	found.Match, _ = s.match(set, domain, entries)
	return found, s.look(ctx, found, found.Match)
}

// look sets the state of the counter of a match.
func (s *Limits) look(ctx context.Context, found *imported.Look, m rules.Match) error {
	e := s.server.gate.Engine
	counters, degraded, err := e.Counters(ctx, []rules.Match{m})
	if err != nil {
		return err
	}
	state := &counters[0]
	if state.Exception != nil {
		found.Exception = state.Exception.ID
	}
	found.Max, found.Used, found.Remaining, found.Degraded = state.Limit, state.Used, state.Remaining, degraded
	found.Reset = max(time.Second, (state.Reset + time.Second - 1).Truncate(time.Second))
	d, err := e.Decide(ctx, &engine.Call{
		Op: engine.Browse, Door: doorname.RateLimit, Source: &look{m}, Unobserved: true, Inputs: []engine.Input{{Sourced: true, NoHits: true}},
	})
	switch {
	case err != nil:
		return err
	case d.Unavailable && d.Cause != nil:
		return d.Cause
	case d.Unavailable:
		found.Exceeded, found.Refused = true, true
	case d.Answers[0].Mode == engine.ModeOff:
		found.Exceeded = state.Retry != 0
	default:
		a := &d.Answers[0]
		found.Exceeded = a.Decider != nil || a.Verdict != rules.Allow || a.Overruled()
		found.Refused = found.Exceeded && a.Mode == ""
	}
	found.Refused = found.Refused && !found.Limit.Shadow && !s.options.Shadow
	return nil
}
