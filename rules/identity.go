package rules

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

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
// counter, which has none otherwise. It is valid until the next request.
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
func (c *Condition) identifies() bool { return !c.Joint && !c.wantsAbsence() && !c.OfResponse() }

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
