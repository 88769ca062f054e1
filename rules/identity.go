package rules

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
	"strconv"
)

// identify encodes the values that the rule's counter belongs to: their
// number, and each with its length before it. No two tuples have the same
// encoding, whatever bytes they hold. When the arena grows, what was encoded
// before stays where it was.
func (m *Matches) identify(r *indexed) []byte {
	start := len(m.arena)
	m.arena = append(m.arena, byte(len(r.identity)))
	for _, t := range r.identity {
		m.arena = t.condition.appendIdentity(m.arena, &m.slots[t.slot])
	}
	return m.arena[start:len(m.arena):len(m.arena)]
}

// Values takes the identity apart: the parameters that the rule counts by,
// ordered by name, with their values as they are counted. Nil for a direct
// rule.
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
		rest = rest[n+int(length):]
	}
	return values
}

// identifies tells whether the parameter is a part of the rule's identity.
func (c *Condition) identifies() bool { return !c.Joint && c.form != formAbsent }

// appendIdentity appends the value as a part of an identity: canonical if it
// was compared as an integer or an address, else as trimmed.
func (c *Condition) appendIdentity(to []byte, v *value) []byte {
	switch {
	case v.isInteger && c.comparesIntegers():
		return appendInteger(to, v.integer)
	case v.isAddress && c.comparesAddresses():
		return appendAddress(to, v.address)
	}
	return appendText(to, v.text)
}

// appendInteger appends the canonical spelling of an integer as a part of an
// identity: its length in one byte, and its digits.
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
