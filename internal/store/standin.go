package store

import "slices"

// standIn is the plan as the in-process store carries it out in place of Redis:
// with rules that do not decide in rescue as shadow rules, with the share of each
// limit that holds then, and marked, so that strict rules have nothing counted.
func (r *Rescue) standIn(p *Plan) *Plan {
	if r.share == 1 && !slices.ContainsFunc(p.Sets, func(s Set) bool {
		return slices.ContainsFunc(s.Rules, func(r Rule) bool { return r.Lenient || r.Strict })
	}) {
		return p
	}
	changed := *p
	changed.standsIn = true
	changed.Sets = slices.Clone(p.Sets)
	for i := range changed.Sets {
		rules := slices.Clone(p.Sets[i].Rules)
		for j := range rules {
			rules[j].Shadow = rules[j].Shadow || rules[j].Lenient
			if r.share < 1 {
				rules[j].shared(r.share)
			}
		}
		changed.Sets[i].Rules = rules
	}
	return &changed
}

// isStrict tells whether a strict rule in force was walked over: one of all
// where none decided, which is -1.
func (s *Set) isStrict(decider int) bool {
	walked := s.Rules
	if decider >= 0 {
		walked = walked[:decider+1]
	}
	for j := range walked {
		if walked[j].Strict && !walked[j].Shadow {
			return true
		}
	}
	return false
}

// shared leaves the rule its share of each limit, rounded down. Where that is
// less than the request itself weighs, the limit is what it weighs, as far as
// the whole limit has room for it: a share must not refuse for ever what Redis
// would admit. So N instances admit at most N times the larger of limit × share
// and the heaviest request.
func (r *Rule) shared(share float64) {
	part := func(limit, least int64) int64 {
		return max(int64(float64(limit)*share), min(max(least, 1), limit))
	}
	switch r.Method {
	case Base:
		r.Base = part(r.Base, 1)
		r.Count = part(r.Count, r.Weight)
	case Token:
		r.Burst = part(r.Burst, r.Weight)
		r.Count = part(r.Count, 1)
	default:
		r.Count = part(r.Count, r.Weight)
	}
}
