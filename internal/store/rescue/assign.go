package rescue

import (
	"cmp"
	"context"
	"slices"

	"github.com/koalagate/koalagate/internal/store"
)

// Assign assigns shares in the shared store. After a failed call the holder keeps its share
// until that ends, as instances keep parts of limits. While Redis is unreachable, and while it
// returns, the local store assigns shares of the limits that apply then: it does not know
// what holders have from Redis, so that for seconds both count. Reports of what it assigned
// are a debt in Redis afterwards.
func (s *Store) Assign(ctx context.Context, u *store.Usage) (store.Assignment, error) {
	absences, share := s.gate.load()
	if share < everyCall {
		return s.assignLocally(ctx, u)
	}
	a, attempt, err := s.shared.TryAssign(ctx, u)
	switch {
	case err == nil:
		s.breaker.Answered()
	case cmp.Or(u.Validate(), ctx.Err()) == nil:
		s.judge(err, attempt, absences)
	}
	return a, err
}

// assignLocally assigns shares in process: strict rules refuse, and lenient rules are left out.
func (s *Store) assignLocally(ctx context.Context, u *store.Usage) (store.Assignment, error) {
	local, indices := *u, make([]int, 0, len(u.Rules))
	local.Rules = make([]store.Rule, 0, len(u.Rules))
	for i := range u.Rules {
		r := u.Rules[i]
		switch {
		case r.Strict:
			return store.Assignment{Reason: store.StrictRefuses, Rule: i, Degraded: true}, nil
		case r.Lenient:
			continue
		case s.share < 1:
			scale(&r, s.share)
		}
		local.Rules, indices = append(local.Rules, r), append(indices, i)
	}
	if len(local.Rules) == 0 {
		return store.Assignment{Reason: store.LenientPasses, Degraded: true}, nil
	}
	tooSmall := func(r store.Rule) bool { return r.Unassignable() != "" } // its part of the limit
	if i := slices.IndexFunc(local.Rules, tooSmall); i >= 0 {
		return store.Assignment{Reason: store.NoRate, Rule: indices[i], Degraded: true}, nil
	}
	a, err := s.local.Assign(ctx, &local)
	a.Degraded = true
	if err == nil {
		a.Rule = indices[a.Rule]
	}
	return a, err
}
