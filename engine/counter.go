package engine

import (
	"context"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/rules"
)

// ResetCounter forgets the counter of an identity, which rules.Rule.Identify returns,
// and lifts its ban. Unlike the operation Reset it needs no request that the rule
// matches. The first result reports that Redis is unavailable and only the counter of
// this process was forgotten. It is an error if the rule has no counter, or if no store
// answered.
func (e *Engine) ResetCounter(ctx context.Context, m rules.Match) (degraded bool, err error) {
	if e == nil || e.store == nil {
		return false, errNotBuilt
	}
	if m.Rule == nil || !m.Rule.Counts() {
		return false, invalid("the rule has no counter")
	}
	var answers store.Answers
	plan := store.Plan{Op: store.Reset, Zone: e.Rules().Zone, Sets: []store.Set{{Rules: []store.Rule{{
		Subject: m.Identity, Return: m.Rule.Return, Method: storeMethods[m.Rule.Method],
		// A reset does not depend on thresholds, which the store checks nevertheless.
		Time: 1, Base: 1,
	}}}}}
	if err := e.store.Evaluate(ctx, &plan, &answers); err != nil {
		return false, err
	}
	return answers.Degraded, nil
}
