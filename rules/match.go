package rules

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

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
		if !r.holds(m.slots, m.Now) || !r.rule.ActiveAt(m.Now) {
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

// Needs reports whether a rule uses a parameter, as in Uses, or [forward] has it. For koalagate's
// own programs, may change.
func (s *Set) Needs(name string) bool { return s.Uses(name) || s.forwards(name) }

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

// list returns one of the lists.
func (l *lists) list(number int32) []int32 { return l.rules[l.starts[number]:l.starts[number+1]] }

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

func (r *indexed) holds(slots []value, now int64) bool {
	for _, t := range r.tests {
		if !t.condition.holds(&slots[t.slot], now) {
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

// limits returns the limits of a rule for the request, and reports whether they limit
// it.
func (m *Matches) limits(r *indexed) (Limits, bool) {
	l := r.rule.Limits
	if len(r.varying) == 0 {
		return l, true
	}
	for i := range r.varying {
		t := r.varying[i].threshold
		*l.of(t.Word), _ = t.value(&m.slots[r.varying[i].slot])
	}
	return l, r.rule.complete(&l)
}

// identify encodes the identity of the rule's counter: the number of its values, and
// each value after its length. Different identities have different encodings, whatever
// bytes they contain. If the arena grows, earlier identities remain in the old array.
func (m *Matches) identify(r *indexed) []byte {
	start := len(m.arena)
	m.arena = append(m.arena, byte(len(r.identity)))
	for _, t := range r.identity {
		m.arena = t.condition.appendIdentity(m.arena, &m.slots[t.slot])
	}
	return m.arena[start:len(m.arena):len(m.arena)]
}

// Identify returns the identity of match i of the last request, also of a rule without a
// counter, which has none otherwise. It is valid until the next request. For koalagate's
// own programs, may change.
func (m *Matches) Identify(i int) []byte {
	match := &m.List[i]
	if match.Identity == nil && m.of != nil {
		return m.identify(&m.of.rules[match.Place])
	}
	return match.Identity
}

// Values decodes the identity. It returns the parameters that the rule counts by,
// ordered by name, with their values in canonical form, and nil for a direct rule. The
// name of a parameter from a later source is NAME@KIND, as in Params.SetNamed.
func (m *Match) Values() []Param {
	if m.Identity == nil {
		return nil
	}
	values := make([]Param, 0, len(m.Rule.Conditions))
	for _, c := range m.Rule.Conditions {
		if c.identifies() {
			values = append(values, Param{Name: c.Name})
		}
	}
	slices.SortFunc(values, func(a, b Param) int { return cmp.Compare(a.Name, b.Name) })
	rest := m.Identity[1:]
	for i := range values {
		length, n := binary.Uvarint(rest)
		values[i].Value = string(rest[n : n+int(length)])
		if source, found := strings.CutPrefix(values[i].Value, qualified); found {
			kind, value, _ := strings.Cut(source, "=")
			values[i] = Param{Name: values[i].Name + "@" + kind, Value: value}
		}
		rest = rest[n+int(length):]
	}
	return values
}

// identifies reports whether the parameter is part of the rule's identity.
func (c *Condition) identifies() bool {
	return !c.Joint && !c.wantsAbsence() && !c.isTimed() && !c.OfResponse()
}

// appendIdentity appends the value as a part of an identity: canonical if the condition
// compares it as an integer or an address, and trimmed otherwise.
func (c *Condition) appendIdentity(to []byte, v *value) []byte {
	if v.source != "" {
		return c.appendQualified(to, v)
	}
	switch {
	case v.isInteger && c.comparesIntegers():
		return appendInteger(to, v.integer)
	case v.isAddress && c.comparesAddresses():
		return appendAddress(to, v.address)
	}
	return appendText(to, v.text)
}

// appendQualified is appendIdentity for a value from a later source of its parameter: it
// appends a blank, the kind of the source, an equals sign and the value. No other value
// begins with a blank, so that none equals it.
func (c *Condition) appendQualified(to []byte, v *value) []byte {
	var buffer [64]byte
	text := buffer[:0]
	switch {
	case v.isInteger && c.comparesIntegers():
		text = strconv.AppendInt(text, v.integer, 10)
	case v.isAddress && c.comparesAddresses():
		text = v.address.AppendTo(text)
	default:
		text = append(text, v.text...)
	}
	to = binary.AppendUvarint(to, uint64(len(qualified)+len(v.source)+len("=")+len(text)))
	to = append(append(to, qualified...), v.source...)
	return append(append(to, '='), text...)
}

// qualified begins the parts of identities that have the kind of their source.
const qualified = " "

// appendInteger appends an integer as a part of an identity: the length in one byte,
// then the digits.
func appendInteger(to []byte, n int64) []byte {
	at := len(to)
	to = strconv.AppendInt(append(to, 0), n, 10)
	to[at] = byte(len(to) - at - 1)
	return to
}

// appendAddress is appendInteger for addresses.
func appendAddress(to []byte, a netip.Addr) []byte {
	at := len(to)
	to = a.AppendTo(append(to, 0))
	to[at] = byte(len(to) - at - 1)
	return to
}

// appendText appends a text as a part of an identity.
func appendText(to []byte, text string) []byte {
	to = binary.AppendUvarint(to, uint64(len(text)))
	return append(to, text...)
}
