package memory

import "github.com/koalagate/koalagate/internal/store"

// A shard without room for another subject has the subjects beyond share
// counters: all those of a rule whose hashes agree in a few bits use one, with
// the rule's own limit. So
//
//   - no counter is dropped while it counts, and nobody who is limited becomes
//     fresh;
//   - each of those who share is admitted at most what the rule admits, and
//     they are refused early where others have used it up: who floods a store
//     with identities is held together with his flood, and a few too many
//     identities are hardly noticed, since there are a thousand such counters;
//   - who shared a counter and finds room later begins his own with a copy of
//     it, and does not begin anew;
//   - nothing is given back to a shared counter: who had taken nothing could
//     give others room.

// place is where a shared counter of a rule is kept.
type place struct {
	tag  int64
	part uint8
}

const (
	// parts is how many shared counters a rule has in a shard.
	parts = 16
	// lastPart is the one for all whose own part has no room.
	lastPart = parts
)

// partOf is the part of a subject, from the bits of its hash that do not choose
// the shard.
func partOf(hash uint64) uint8 { return uint8(hash / shards % parts) }

// make is a new counter for rule j of set i, or the one that it shares where
// there is no room. A new one counts what the subject may have counted on a
// shared one.
func (s *step) make(i, j int) counter {
	slot, r := &s.slots[s.first[i]+j], &s.plan.Sets[i].Rules[j]
	shared := slot.shard.spill(r, slot.part, s.at.now)
	slot.counter = slot.shard.make(slot.subject, r)
	if slot.counter == nil {
		s.shares++
		return slot.shard.share(r, slot.part, s.at.now)
	}
	if shared != nil {
		replicate(slot.counter, shared)
	}
	return slot.counter
}

// spill is the shared counter on which the rule's subject may have been counted,
// nil if there is none that still counts.
func (s *shard) spill(r *store.Rule, part uint8, now int64) counter {
	if len(s.spilled) == 0 {
		return nil
	}
	for _, p := range [...]uint8{part, lastPart} {
		if c := s.spilled[place{r.Tag(), p}]; c != nil && c.until() > now {
			return c
		}
	}
	return nil
}

// share is the shared counter for a subject without room.
func (s *shard) share(r *store.Rule, part uint8, now int64) counter {
	at := place{r.Tag(), part}
	if c := s.spilled[at]; c != nil {
		return c
	}
	before := s.spill(r, part, now) // that of the last part, if it counts
	if len(s.spilled) >= s.room/4+parts {
		at.part = lastPart
		if c := s.spilled[at]; c != nil {
			return c
		}
	}
	c := newCounter(r.Method)
	if before != nil {
		replicate(c, before)
	}
	if s.spilled == nil {
		s.spilled = make(map[place]counter)
	}
	s.spilled[at] = c
	return c
}

// replicate makes c, which is new, count what from does.
func replicate(c, from counter) {
	var copied saved
	copied.save(from)
	copied.slide.older = copied.slide.older[:len(copied.slide.older):len(copied.slide.older)]
	copied.counter = c
	copied.restore()
}

// Identities is how many identities have counters of their own now.
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

// Shared is how often something was counted on a counter that identities beyond
// the bound share.
func (m *Store) Shared() uint64 { return m.shared.Load() }
