package rules

import "slices"

// maxCost is the greatest cost of a hit. A greater value is treated as no integer.
const maxCost = 1_000_000_000_000_000

// Match replaces the content of m with all rules that match the request, highest
// priority first. Nil Params are a request without parameters. The time of the request
// is m.Now.
func (s *Set) Match(p *Params, m *Matches) {
	m.read(&s.index, p)
	m.collect(&s.index)
	for i := m.next(); i >= 0; i = m.next() {
		r := &s.index.rules[i]
		if !r.holds(m.slots) || !r.rule.ActiveAt(m.Now) {
			continue
		}
		if limits, limited := m.limits(r); limited {
			m.add(r, int(i), limits)
		}
	}
}

// Rule returns the rule whose Return is number, nil if there is none.
func (s *Set) Rule(number int64) *Rule {
	if place, ok := s.index.numbers[number]; ok {
		return s.index.rules[place].rule
	}
	return nil
}

// Uses reports whether a rule uses a parameter, in a condition, as its cost or in a
// threshold, or whether a table of [params] has it as its key. For koalagate's own
// programs, may change.
func (s *Set) Uses(name string) bool {
	_, ok := s.index.slots[name]
	return ok
}

// read fills the slots with the request's values and empties the rest of m. It accesses
// only the slots of this request and the previous one, because rules may use
// thousands of parameters.
func (m *Matches) read(x *index, p *Params) {
	m.List, m.arena = m.List[:0], m.arena[:0]
	if m.of != x {
		m.of, m.slots, m.filled = x, make([]value, len(x.reads)), m.filled[:0]
		m.door, m.domain = x.find("door"), x.find("domain")
	}
	for _, slot := range m.filled {
		m.slots[slot] = value{}
	}
	m.filled = m.filled[:0]
	list := p.List()
	for i := range list {
		if slot := m.slot(list[i].Name); slot >= 0 {
			m.slots[slot].read(list[i].Value, x.reads[slot].integers, x.reads[slot].addresses)
			m.filled = append(m.filled, slot)
		}
	}
	if p != nil {
		for _, s := range p.later {
			if slot := m.slot(s.name); slot >= 0 {
				m.slots[slot].source = s.kind.name()
			}
		}
	}
}

// slot returns the slot of a parameter, -1 if no rule uses it. It keeps the slots of
// door and domain, because every request of a gateway has the first and every rate
// limit descriptor the second.
func (m *Matches) slot(name string) int {
	switch name {
	case "door":
		return m.door
	case "domain":
		return m.domain
	}
	return m.of.find(name)
}

// find returns the slot of a parameter, -1 if no rule uses it.
func (x *index) find(name string) int {
	if slot, ok := x.slots[name]; ok {
		return slot
	}
	return -1
}

// collect finds the lists of rules that the request may match. Each is in the order
// of the files.
func (m *Matches) collect(x *index) {
	m.lists = append(m.lists[:0], x.always)
	for _, slot := range m.filled {
		v, w := &m.slots[slot], &x.ways[slot]
		if v.text == "" {
			continue
		}
		m.lists = append(m.lists, w.present)
		if w.words {
			if number, ok := x.words[slotWord{slot, v.text}]; ok {
				m.lists = append(m.lists, x.wanted.list(number))
			}
		}
		if v.isInteger {
			m.lists = w.integers.appendLists(m.lists, integerKey(v.integer))
		}
		if v.isAddress {
			m.lists = w.addresses.appendLists(m.lists, addressKey(v.address))
		}
		for i := range w.lists {
			if w.lists[i].dict.contains(v) {
				m.lists = append(m.lists, w.lists[i].rules)
			}
		}
	}
	m.lists = slices.DeleteFunc(m.lists, func(list []int32) bool { return len(list) == 0 })
}

// next removes the first rule from all lists and returns it, -1 if there is none. A
// rule is in several lists if several values of its condition lead to it.
func (m *Matches) next() int32 {
	first := int32(-1)
	for _, list := range m.lists {
		if len(list) > 0 && (first < 0 || list[0] < first) {
			first = list[0]
		}
	}
	for i, list := range m.lists {
		if len(list) > 0 && list[0] == first {
			m.lists[i] = list[1:]
		}
	}
	return first
}

func (r *indexed) holds(slots []value) bool {
	for _, t := range r.tests {
		if !t.condition.holds(&slots[t.slot]) {
			return false
		}
	}
	return true
}

// add appends a rule that matches, at its place in Set.Rules.
func (m *Matches) add(r *indexed, place int, limits Limits) {
	match := Match{Rule: r.rule, Place: place, Limits: limits, Cost: 1}
	if r.cost >= 0 {
		if v := &m.slots[r.cost]; v.isInteger && v.integer >= 0 && v.integer <= maxCost {
			match.Cost = v.integer
		}
	}
	if r.rule.Counts() {
		match.Identity = m.identify(r)
	}
	m.List = append(m.List, match)
}
