package rescue

import (
	"slices"

	"github.com/koalagate/koalagate/internal/method"
	"github.com/koalagate/koalagate/internal/store"
)

// inProcess returns the plan as the local store evaluates it in rescue: lenient
// rules become shadow rules, each limit is scaled to the share, and the plan is
// marked so that strict rules refuse.
func (s *Store) inProcess(p *store.Plan) *store.Plan {
	if s.share == 1 && !slices.ContainsFunc(p.Sets, func(set store.Set) bool {
		return slices.ContainsFunc(set.Rules, func(r store.Rule) bool { return r.Lenient || r.Strict })
	}) {
		return p
	}
	changed := *p
	changed.InRescue = true
	changed.Sets = slices.Clone(p.Sets)
	for i := range changed.Sets {
		rules := slices.Clone(p.Sets[i].Rules)
		for j := range rules {
			rules[j].Shadow = rules[j].Shadow || rules[j].Lenient && !rules[j].Marked
			if s.share < 1 {
				scale(&rules[j], s.share)
			}
		}
		changed.Sets[i].Rules = rules
	}
	return &changed
}

// scale reduces each limit of the rule to its share, rounded down. If that is
// less than the request's weight, the limit becomes the weight, as far as the
// whole limit admits it: a share must not refuse forever what Redis would
// admit. So N instances admit at most N times the larger of limit × share and
// the heaviest request.
func scale(r *store.Rule, share float64) {
	part := func(limit, least int64) int64 {
		return max(int64(float64(limit)*share), min(max(least, 1), limit))
	}
	switch is := method.Of(r.Method); {
	case is.FirstFree:
		r.Base = part(r.Base, 1)
		r.Count = part(r.Count, r.Weight)
	case is.Refills:
		r.Burst = part(r.Burst, r.Weight)
		r.Count = part(r.Count, 1)
	default:
		r.Count = part(r.Count, r.Weight)
	}
}
