package engine

import (
	"context"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/rules"
)

// Counter is the state of the counter of a rule for one identity. For koalagate's own
// programs, may change.
type Counter struct {
	Limit     int64
	Used      int64 // hits counted now; for a base rule, the hits of the day
	Remaining int64
	Reset     time.Duration // until the counter is as new; 0 for a counter without hits
	// Retry is the time after which another hit fits, 0 if one fits now. It is negative
	// if none ever fits.
	Retry time.Duration
	// Banned is the time until the ban of the identity ends, 0 without one.
	Banned time.Duration
	// Leased is the number of hits that other instances hold in advance and may not have
	// spent: they are counted in Used. See rules.Rule.Lease.
	Leased int64
	// Lent is what gateways hold that decide by themselves.
	Lent Lent
	// Exception is the exception that applies to the rule for the identity, nil for none.
	Exception *Exception
}

// Lent is the part of a limit that gateways hold which decide by themselves. For koalagate's
// own programs, may change.
type Lent struct {
	Holders     int64 // gateways
	Rate, Limit int64 // of all of them, and of the limit, in hits per 10 s
}

// Now returns the time by which rules begin and end, in ms since the epoch: the
// time of the counters' last answer, advanced by the clock of this process. Without an
// engine it is the clock of this process.
func (e *Engine) Now() int64 {
	if e == nil || e.store == nil {
		return time.Now().UnixMilli()
	}
	return e.clock.now()
}

// Counters returns the states of the counters of matches, which rules.Set.Match and
// rules.Rule.Identify return, index for index. Rules without a counter have the zero
// value. The second result reports that Redis is unavailable and the states come from this
// process. Nothing is counted or observed. It is an error if a match has no rule, if the
// matches have more than 2048 counters, or if no store answered. For koalagate's own
// programs, may change.
func (e *Engine) Counters(ctx context.Context, matches []rules.Match) (list []Counter, degraded bool, err error) {
	if e == nil || e.store == nil {
		return nil, false, errNotBuilt
	}
	for i := range matches {
		if matches[i].Rule == nil {
			return nil, false, invalid("match %d has no rule", i)
		}
	}
	list = make([]Counter, len(matches))
	browse, peek := e.plansOf(matches, list)
	if len(browse.Sets) == 0 {
		return list, false, nil
	}
	if len(browse.Sets) > store.MaxRules {
		return nil, false, invalid("%d counters; want at most %d", len(browse.Sets), store.MaxRules)
	}
	var states, hits store.Answers
	if err := e.store.Evaluate(ctx, &browse, &states); err != nil {
		return nil, false, err
	}
	if err := e.store.Evaluate(ctx, &peek, &hits); err != nil {
		return nil, false, err
	}
	at := 0
	for i := range matches {
		if matches[i].Rule.Counts() {
			counterOf(&states.Sets[at], &hits.Sets[at], &list[i])
			if list[i].Lent, err = e.lent(ctx, matches[i].Rule, &peek.Sets[at].Rules[0], peek.Zone); err != nil {
				return nil, false, err
			}
			at++
		}
	}
	return list, states.Degraded || hits.Degraded, nil
}

// lent returns what gateways hold of the counter of a rule.
func (e *Engine) lent(ctx context.Context, by *rules.Rule, r *store.Rule, zone *time.Location) (Lent, error) {
	assigner, ok := e.store.(store.Assigner)
	if !ok || by.Unassignable() != "" || r.Unassignable() != "" {
		return Lent{}, nil
	}
	a, err := assigner.Assign(ctx, &store.Usage{Zone: zone, Rules: []store.Rule{*r}, Lasts: AssignmentTime.Milliseconds(), Look: true})
	return Lent{a.Holders, a.Lent, a.Limit}, err
}

// plansOf returns the plans that read the counters of matches: one decides a hit of each
// counter alone, the other reads the hits. It sets the exceptions in list.
func (e *Engine) plansOf(matches []rules.Match, list []Counter) (browse, peek store.Plan) {
	v := evaluation{rules: e.Rules(), book: e.exceptions.book.Load(), exceptions: e.exceptions, clock: &e.clock}
	browse = store.Plan{Op: store.Browse, Zone: v.rules.Zone}
	peek = store.Plan{Op: store.Peek, Zone: v.rules.Zone}
	for i := range matches {
		m := matchedInput{matches: rules.Matches{List: []rules.Match{matches[i]}}}
		if v.book != nil && matches[i].Identity != nil {
			list[i].Exception = v.except(&m, 0)
		}
		if !matches[i].Rule.Counts() {
			continue
		}
		r := v.counter(&m.matches.List[0], 1, nil)
		r.Shadow, r.Marked, r.Allows, r.Wait, r.Lenient, r.Strict = false, false, false, 0, false, false
		r.Settle, r.Outcome = 0, false
		browse.Sets = append(browse.Sets, store.Set{Allows: true, Rules: []store.Rule{r}})
		peek.Sets = append(peek.Sets, store.Set{Allows: true, Rules: []store.Rule{r}})
	}
	return browse, peek
}

// counterOf sets the state of a counter.
func counterOf(state, hits *store.Answer, c *Counter) {
	c.Limit, c.Used, c.Remaining, c.Reset = state.Limit, hits.Hits, state.Remaining, milliseconds(state.Reset)
	c.Leased = hits.Leased
	if state.Decider >= 0 {
		if c.Retry = -1; state.Retry >= 0 {
			c.Retry = milliseconds(state.Retry)
		}
	}
	if state.Banned {
		c.Banned = milliseconds(state.Reset)
	}
}

// ResetCounter forgets the counter of an identity, which rules.Rule.Identify returns, and
// lifts its ban. Unlike the operation Reset it needs no request that the rule matches. The
// first result reports that Redis is unavailable and only the counter of this process was
// forgotten. It is an error if the rule has no counter, or if no store answered. For
// koalagate's own programs, may change.
func (e *Engine) ResetCounter(ctx context.Context, m rules.Match) (degraded bool, err error) {
	if e == nil || e.store == nil {
		return false, errNotBuilt
	}
	if m.Rule == nil || !m.Rule.Counts() {
		return false, invalid("the rule has no counter")
	}
	var answers store.Answers
	plan := store.Plan{Op: store.Reset, Zone: e.Rules().Zone, Sets: []store.Set{{Rules: []store.Rule{{
		Subject: m.Identity, Return: m.Rule.Return, Method: store.Method(m.Rule.Method),
		// A reset does not depend on thresholds, which the store checks nevertheless. But
		// what instances hold in advance opens a window.
		Time: max(m.Rule.Time, 1), Unit: store.Unit(m.Rule.Unit), From: uint8(m.Rule.From), Base: 1,
		Lease: m.Rule.Lease,
	}}}}}
	if err := e.store.Evaluate(ctx, &plan, &answers); err != nil {
		return false, err
	}
	return answers.Degraded, nil
}
