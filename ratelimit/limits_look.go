package ratelimit

import (
	"context"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/dropin/imported"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/rules"
)

// Look returns the limit of a descriptor and the state of its counter. It counts
// nothing, in statistics neither. The error is one of the store.
func (s *Limits) Look(ctx context.Context, domain string, entries []mapping.Entry) (*imported.Look, error) {
	set := s.options.Current()
	if set == nil {
		return &imported.Look{Reason: "no limits are loaded yet, so that every call fails"}, nil
	}
	c := &limitCall{limits: s, message: message{domain: domain}}
	set.Match(domain, entries, &c.match)
	look := &imported.Look{Path: c.match.Path, Limit: c.match.Limit}
	switch {
	case look.Limit == nil:
		look.Reason = set.Reason(domain, entries, &c.match)
		return look, nil
	case look.Limit.Unlimited:
		return look, nil
	}
	c.applied = []applied{{limit: look.Limit, path: look.Path}}
	a := &c.applied[0]
	c.appendSubject(a, entries, c.match.Shared)
	c.fillPlan()
	if err := s.options.Store.Evaluate(ctx, &c.plan, &c.answers); err != nil {
		return nil, err
	}
	c.measure(a)
	a.weight = 1 // of the next hit, which may be more than a share of the limit while Redis is away
	limit := c.threshold(a)
	look.Used, look.Remaining, look.Reset = a.after, max(0, limit-a.after), time.Duration(a.reset)*time.Second
	look.Degraded = c.answers.Degraded
	look.Exceeded = a.after >= limit
	if look.Degraded && s.options.Outage != rules.FailRescue && s.options.Outage != rules.FailUnset {
		look.Exceeded = s.options.Outage != rules.FailAllow
	}
	look.Refused = look.Exceeded && !look.Limit.Shadow && !s.options.Shadow && s.mode() == engine.ModeEnforce
	return look, nil
}

// mode returns the current mode of the door.
func (s *Limits) mode() engine.Mode {
	if s.options.Mode == nil {
		return engine.ModeEnforce
	}
	return s.options.Mode()
}
