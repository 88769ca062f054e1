package memory

import (
	"hash/maphash"

	"github.com/koalagate/koalagate/internal/method"
	"github.com/koalagate/koalagate/internal/store"
)

// Copy copies the counters of rules from another store, unless m has one already, and
// reports for each rule whether it was copied. Holds are not copied: only the receipts of
// the other store end them. Neither are identities that share counters, in either store.
func (m *Store) Copy(from *Store, rules []*store.Rule) []bool {
	copied := make([]bool, len(rules))
	for i, r := range rules {
		if method.Of(r.Method).Holds {
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
	if c := s.find(subject, r); c != nil {
		return c.clone()
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
