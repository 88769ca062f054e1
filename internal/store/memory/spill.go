package memory

import "github.com/koalagate/koalagate/internal/store"

// When a shard is full, further subjects share counters: for each rule, all
// subjects whose hashes agree in a few bits use one counter, with the rule's own
// limit. So
//
//   - no active counter is dropped, and no limit restarts;
//   - each subject that shares is admitted at most what the rule admits, and is
//     refused early if other subjects have used it up: a flood of identities is
//     limited as a whole, while a few identities beyond the bound hardly notice,
//     because each rule has a thousand such counters;
//   - a subject that shared a counter and fits later gets its own, which starts
//     as a copy;
//   - nothing is given back to a shared counter: otherwise a subject that had
//     taken nothing could free hits for other subjects.

// shareKey identifies a shared counter of a shard.
type shareKey struct {
	tag  int64
	part uint8
}

const (
	// parts is the number of shared counters of a rule in a shard.
	parts = 16
	// lastPart is the part for all subjects whose own part does not fit.
	lastPart = parts
)

// partOf returns the part of a subject, from bits of its hash that do not select
// the shard.
func partOf(hash uint64) uint8 { return uint8(hash / shards % parts) }

// make returns a new counter for rule j of set i, or a shared one if the subject
// does not fit. A new counter starts with what the subject may have counted on a
// shared one.
func (s *step) make(i, j int) counter {
	c, shares := s.places[s.first[i]+j].make(&s.plan.Sets[i].Rules[j], s.at.now)
	if shares {
		s.shares++
	}
	return c
}

// make makes the counter of a rule, and reports whether it is a shared one.
func (p *place) make(r *store.Rule, now int64) (c counter, shares bool) {
	shared := p.shard.spill(r, p.part, now)
	p.counter = p.shard.make(p.subject, r)
	if p.counter == nil {
		return p.shard.share(r, p.part, now), true
	}
	if shared != nil {
		p.counter = shared.clone()
		p.shard.cell(p.subject, r).counter = p.counter
	}
	return p.counter, false
}

// current returns the counter that a rule reads: the subject's own, else the shared one;
// nil if there is none.
func (p *place) current(r *store.Rule, now int64) counter {
	if p.counter != nil {
		return p.counter
	}
	if c := p.shard.find(p.subject, r); c != nil {
		return c
	}
	return p.shard.spill(r, p.part, now)
}

// spill returns the shared counter on which the rule's subject may have been
// counted; nil if none is active.
func (s *shard) spill(r *store.Rule, part uint8, now int64) counter {
	if len(s.spilled) == 0 {
		return nil
	}
	for _, p := range [...]uint8{part, lastPart} {
		if c := s.spilled[shareKey{r.Tag(), p}]; c != nil && c.until() > now {
			return c
		}
	}
	return nil
}

// share returns the shared counter for a subject that does not fit, made if needed.
func (s *shard) share(r *store.Rule, part uint8, now int64) counter {
	at := shareKey{r.Tag(), part}
	if c := s.spilled[at]; c != nil {
		return c
	}
	before := s.spill(r, part, now) // the counter of the last part, if active
	if len(s.spilled) >= s.maxSubjects/4+parts {
		at.part = lastPart
		if c := s.spilled[at]; c != nil {
			return c
		}
	}
	var c counter
	if before != nil {
		c = before.clone()
	} else {
		c = zero[r.Method]()
	}
	if s.spilled == nil {
		s.spilled = make(map[shareKey]counter)
	}
	s.spilled[at] = c
	return c
}

// Identities returns the number of identities that have counters of their own.
func (m *Store) Identities() int {
	n := 0
	for i := range m.shards {
		s := &m.shards[i]
		s.Lock()
		n += len(s.subjects)
		s.Unlock()
	}
	return n
}

// Shared returns how often a rule was counted on a counter that identities beyond
// the bound share, or a usage got no share because its counter had no room.
func (m *Store) Shared() uint64 { return m.shared.Load() }
