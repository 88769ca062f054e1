package memory

import (
	"hash/maphash"
	"slices"

	"github.com/koalagate/koalagate/internal/store"
)

// maxSeeded is the number of identities per shard that Seed may add: about 65,000
// in all, enough for the relevant ones and too few to be a burden.
const maxSeeded = 1024

// Seed makes the counters of rules that refused answer as another store just
// did: they refuse the same weight for as long as its answer states, and count at
// least the hits that it reports. So identities that are refused when Redis
// becomes unreachable stay refused. Seed replaces what m itself had counted for
// these rules.
//
// The counters of other rules that the answers report take over those states when
// they are next used here, unless they hold more hits.
//
// Times are durations from now: the clock of the other store may differ.
func (m *Store) Seed(p *store.Plan, a *store.Answers) {
	for i := range a.Sets {
		one := &a.Sets[i]
		if one.Reporter < 0 {
			continue
		}
		r := &p.Sets[i].Rules[one.Reporter]
		switch {
		case p.Op == store.Reset:
			m.forget(r)
		case one.Banned:
			m.forget(r) // also the hits before the ban
			m.seedRefusal(p, r, one)
		case one.Decider < 0 || one.Retry <= 0 || p.Sets[i].Refund:
			m.record(p, i, one, a.Now)
		default:
			m.seedRefusal(p, r, one)
		}
	}
}

// forget deletes the rule's counter and the last state of another store: it was reset
// there, or banned.
func (m *Store) forget(r *store.Rule) {
	subject, _ := m.keptUnder(r.Subject, nil)
	hash := maphash.Bytes(m.seed, subject)
	s := &m.shards[hash%shards]
	s.Lock()
	s.forget(subject, r)
	s.Unlock()
	if last := m.last.Load(); last != nil {
		last.take(nameOf(hash, r), 0)
	}
}

func (m *Store) seedRefusal(p *store.Plan, r *store.Rule, a *store.Answer) {
	from := m.steps.Get().(*step) // for its moment
	defer m.steps.Put(from)
	from.at = m.moment(p)
	t := &from.at
	subject, _ := m.keptUnder(r.Subject, nil)
	s := &m.shards[maphash.Bytes(m.seed, subject)%shards]
	s.Lock()
	defer s.Unlock()
	c := s.cell(subject, r)
	if c == nil {
		s.sweep(t.now) // first, so that it does not drop the new counter before it is seeded
		if len(s.subjects) >= maxSeeded {
			s.grown++
			return
		}
		if s.make(subject, r) == nil {
			return
		}
		c = s.cell(subject, r)
	}
	c.counter.seed(r, a, t)
	c.seeded, s.seeds = true, true
}

// counted records that the rule's counter for a subject no longer holds only
// what Seed has set.
func (s *shard) counted(subject []byte, r *store.Rule) {
	if c := s.cell(subject, r); c != nil {
		c.seeded = false
	}
}

// ForgetCounted forgets all counters except counters that hold only states that Seed
// set: the other store refuses what they refuse.
func (m *Store) ForgetCounted() {
	for i := range m.shards {
		m.shards[i].forgetCounted()
	}
}

func (s *shard) forgetCounted() {
	s.Lock()
	defer s.Unlock()
	kept := make(map[string][]cell)
	if s.seeds {
		for subject, cells := range s.subjects {
			cells = slices.DeleteFunc(cells, func(c cell) bool { return !c.seeded })
			if len(cells) > 0 {
				kept[subject] = cells
			}
		}
	}
	s.subjects, s.spilled, s.peak, s.seeds = kept, nil, len(kept), len(kept) > 0
}

// seed sets the window to the hits and the end that a refusal reports.
func (w *window) seed(_ *store.Rule, a *store.Answer, t *moment) {
	if a.Banned {
		w.ban(t.now + a.Reset)
		return
	}
	*w = window{hits: a.Limit - a.Remaining, opened: t.now, end: t.now + a.Reset}
}

// seed sets both windows. The answer does not contain the day's free hits once
// they are used up, nor the second window before that: then it becomes as full as
// it must be to refuse.
func (d *daily) seed(r *store.Rule, a *store.Answer, t *moment) {
	if !a.Daily {
		d.today = window{hits: r.Base, end: t.dayEnd()}
		d.second = window{hits: a.Limit - a.Remaining, end: t.now + a.Retry}
		return
	}
	d.today = window{hits: a.Limit - a.Remaining, end: t.now + a.Reset}
	_, counting := d.split(r, t.now)
	d.second = window{hits: max(r.Count-counting+1, 0), end: t.now + a.Retry}
}

// sameRefusal is the largest difference between two answers about the same hits,
// in ms: the clocks of two stores are not synchronized.
const sameRefusal = 5

// seed sets two runs: the hits that must leave before the weight fits, and all
// others, as if they were counted with the newest.
func (s *slide) seed(r *store.Rule, a *store.Answer, t *moment) {
	if a.Banned {
		s.ban(t.now + a.Reset)
		return
	}
	gone := t.now + a.Reset
	if late := gone - s.gone; -sameRefusal <= late && late <= sameRefusal {
		return // no hit was counted since
	}
	hits := a.Limit - a.Remaining
	first := max(hits-(r.Count-needed(r)), 1)
	newest := max(gone-r.Time*1000, 1)
	oldest := max(t.now+a.Retry-r.Time*1000, 1)
	*s = slide{newest: run{newest, hits}, gone: gone}
	if first < hits && oldest < newest {
		s.older = []run{{oldest, first}}
	}
}

// seed sets the level so that the weight fits at the instant that the answer states.
func (b *bucket) seed(r *store.Rule, a *store.Answer, t *moment) {
	size, unit, refill := sizeOf(r), r.Time*1000, refillOf(r)
	level := min(needed(r), size/unit) * unit
	if a.Retry < ceilDiv(mostBelow-(size-level), refill) {
		level -= a.Retry * refill
	} else {
		level = size - mostBelow
	}
	*b = bucket{}
	b.set(level, r, t.now)
}
