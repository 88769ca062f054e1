package memory

import (
	"hash/maphash"
	"slices"

	"github.com/koalagate/koalagate/internal/store"
)

// Copy copies the counters of rules from another store, unless m has one already, and
// reports for each rule whether it was copied. Holds are not copied: only the receipts of
// the other store end them. Neither are identities that share counters, in either store.
func (m *Store) Copy(from *Store, rules []*store.Rule) []bool {
	copied := make([]bool, len(rules))
	for i, r := range rules {
		if r.Method == store.Hold {
			continue
		}
		if c := from.clone(r); c != nil {
			copied[i] = m.adopt(r, c)
		}
	}
	return copied
}

// clone returns a copy of the rule's counter, nil if there is none.
func (m *Store) clone(r *store.Rule) counter {
	subject, _ := m.keptUnder(r.Subject, nil)
	s := &m.shards[maphash.Bytes(m.seed, subject)%shards]
	s.Lock()
	defer s.Unlock()
	switch c := s.find(subject, r).(type) {
	case *window:
		return new(*c)
	case *daily:
		return new(*c)
	case *slide:
		one := *c
		one.older = slices.Clip(one.older) // its elements are never changed; an append copies them
		return &one
	case *bucket:
		return new(*c)
	}
	return nil
}

// adopt makes c the rule's counter, unless there is one, and reports whether it did.
func (m *Store) adopt(r *store.Rule, c counter) bool {
	subject, _ := m.keptUnder(r.Subject, nil)
	s := &m.shards[maphash.Bytes(m.seed, subject)%shards]
	s.Lock()
	defer s.Unlock()
	if s.find(subject, r) != nil || s.make(subject, r) == nil {
		return false
	}
	s.cell(subject, r).counter = c
	return true
}
