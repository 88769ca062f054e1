package memory

import (
	"hash/maphash"
	"slices"

	"github.com/koalagate/koalagate/internal/store"
)

// maxLearnt is how many identities of a shard are kept from the answers of
// another store: some 65,000 in all, enough for those that matter and too few
// to be a burden.
const maxLearnt = 1024

// learn makes the counters of the rules that refused answer as another store
// just did: the same weight is refused for as long as it said, and at the least
// what it told of is counted. So who is refused when Redis goes away stays
// refused. What m had counted for these rules itself is forgotten, since it was
// counted in place of what is now known.
//
// Times are taken as durations from now on: the other store's clock may be
// another one.
func (m *Store) Seed(p *store.Plan, a *store.Answers) {
	for i := range a.Sets {
		if a.Sets[i].Decider < 0 || a.Sets[i].Retry <= 0 || p.Sets[i].Refund {
			continue
		}
		m.learnRefusal(p, &p.Sets[i].Rules[a.Sets[i].Decider], &a.Sets[i])
	}
}

func (m *Store) learnRefusal(p *store.Plan, r *store.Rule, a *store.Answer) {
	t := moment{now: p.Now}
	if t.now == 0 {
		t.now = m.clock()
	}
	if r.UsesCalendar() {
		t.dayEnd = m.calendar.DayEnd(p.Zone, t.now)
	}
	subject, _ := m.keptUnder(r.Subject, nil)
	s := &m.shards[maphash.Bytes(m.seed, subject)%shards]
	s.Lock()
	defer s.Unlock()
	c := s.cell(subject, r)
	if c == nil {
		s.sweep(t.now) // first, lest it drops what is new and has not learnt yet
		if len(s.subjects) >= maxLearnt {
			s.grown++
			return
		}
		if s.make(subject, r) == nil {
			return
		}
		c = s.cell(subject, r)
	}
	c.counter.learn(r, a, t)
	c.learnt, s.learns = true, true
}

// counted notes that the rule's counter for a subject is not only what was learnt
// any more.
func (s *shard) counted(subject []byte, r *store.Rule) {
	if c := s.cell(subject, r); c != nil {
		c.learnt = false
	}
}

// clearCounted forgets all counters but those that are as they were learnt: what
// they refuse is refused by the other store too.
func (m *Store) ForgetCounted() {
	for i := range m.shards {
		m.shards[i].clearCounted()
	}
}

func (s *shard) clearCounted() {
	s.Lock()
	defer s.Unlock()
	learnt := make(map[string][]cell)
	if s.learns {
		for subject, cells := range s.subjects {
			cells = slices.DeleteFunc(cells, func(c cell) bool { return !c.learnt })
			if len(cells) > 0 {
				learnt[subject] = cells
			}
		}
	}
	s.subjects, s.spilled, s.peak, s.learns = learnt, nil, len(learnt), len(learnt) > 0
}

// learn sets the window to what a refusal told: so many hits, until it closes.
func (w *window) learn(_ *store.Rule, a *store.Answer, t moment) {
	w.hits, w.end = a.Limit-a.Remaining, t.now+a.Reset
}

// learn sets both windows. Of the day's free hits the answer says nothing once
// they are used up, and of the second window nothing before: then it is as full
// as it must be to refuse.
func (d *daily) learn(r *store.Rule, a *store.Answer, t moment) {
	if !a.Daily {
		d.today = window{hits: r.Base, end: t.dayEnd}
		d.second = window{hits: a.Limit - a.Remaining, end: t.now + a.Retry}
		return
	}
	d.today = window{hits: a.Limit - a.Remaining, end: t.now + a.Reset}
	_, counting := d.split(r, t.now)
	d.second = window{hits: max(r.Count-counting+1, 0), end: t.now + a.Retry}
}

// sameRefusal is by how much two answers about the same hits may differ, in ms:
// the clocks of two stores do not tick together.
const sameRefusal = 5

// learn sets two runs: the hits that have to be out before the weight fits, and
// all others, as if they came with the newest.
func (s *slide) learn(r *store.Rule, a *store.Answer, t moment) {
	gone := t.now + a.Reset
	if late := gone - s.gone; -sameRefusal <= late && late <= sameRefusal {
		return // no hit has come since
	}
	hits := a.Limit - a.Remaining
	first := max(hits+r.Weight-r.Count, 1)
	newest := max(gone-r.Time*1000, 1)
	oldest := max(t.now+a.Retry-r.Time*1000, 1)
	*s = slide{newest: run{newest, hits}, gone: gone}
	if first < hits && oldest < newest {
		s.older = []run{{oldest, first}}
	}
}

// learn sets the level from which the weight fits when the answer says.
func (b *bucket) learn(r *store.Rule, a *store.Answer, t moment) {
	unit := r.Time * 1000
	level := min(max(r.Weight*unit-a.Retry*r.Count, 0), r.Burst*unit)
	*b = bucket{}
	b.set(r.Burst*unit-level, r, t.now)
}
