package memory

import "github.com/koalagate/koalagate/internal/store"

// lasting is a change that a refusal does not undo: what an overdraft rule recorded,
// or a ban.
type lasting struct {
	rule    *store.Rule
	counter counter
	bans    bool
}

// recordLasting makes the lasting changes of a take, on the rules that its walk of set i
// reached: overdraft rules record their weights whatever the verdict, and refusals open
// bans. The decider then reports the state after that.
func (s *step) recordLasting(i int, a *store.Answer) {
	rules, refusing := s.plan.Sets[i].Rules, a.Refusals
	if a.Decider >= 0 {
		rules = rules[:a.Decider+1]
	}
	for j := range rules {
		r, refuses := &rules[j], j == a.Decider
		if len(refusing) > 0 && refusing[0] == j {
			refuses, refusing = true, refusing[1:]
		}
		switch {
		case refuses && opensBan(r):
			s.ban(i, j)
		case r.Overdraft && r.Weight > 0 && !r.Outcome:
			s.keep(lasting{rule: r, counter: s.add(i, j)})
		}
		s.places[s.first[i]+j].admits = !refuses && (r.Overdraft || r.Ban > 0)
	}
	if a.Decider >= 0 && (rules[a.Decider].Overdraft || rules[a.Decider].Ban > 0) {
		decide(a, a.Decider, &rules[a.Decider], s.read(i, a.Decider))
	}
}

// opensBan reports whether a refusal by the rule opens a ban: it has one, and the weight
// is not 0 and could fit.
func opensBan(r *store.Rule) bool {
	return r.Ban > 0 && r.Weight > 0 && needed(r) <= r.Count
}

// ban opens the ban of rule j of set i. A shared counter bans nobody: most of the
// subjects that share it have done nothing. It refuses them until it ends.
func (s *step) ban(i, j int) {
	c, r := s.change(i, j), &s.plan.Sets[i].Rules[j]
	if c.banned(s.at.now) {
		return // further refusals do not extend it
	}
	if w, lends := c.(*lentWindow); lends && w.early(r, s.at.now) {
		return
	}
	if s.places[s.first[i]+j].counter == nil {
		if r.Overdraft && !r.Outcome {
			s.keep(lasting{rule: r, counter: s.add(i, j)})
		}
		return
	}
	c.ban(s.at.now + r.Ban*1000)
	s.keep(lasting{rule: r, counter: c, bans: true})
}

// keep keeps a change that undo carries out again.
func (s *step) keep(l lasting) {
	if len(s.plan.Sets) > 1 {
		s.lasting = append(s.lasting, l)
	}
}

// admitted reports whether rule j of set i, whose overdraft or ban lasts, admitted its
// weight before the undo: it admits it again, whatever the set's later sets left.
func (s *step) admitted(i, j int) bool { return s.again && s.places[s.first[i]+j].admits }
