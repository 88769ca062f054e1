package rules

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// form is the way in which a condition compares its parameter.
type form uint8

const (
	formList    form = iota // = with words, integers, addresses, and ranges of these
	formPresent             // =+
	formAbsent              // !=+
	formAbove               // >
	formBelow               // <
	formDict                // @ list
	formGlob                // ~ pattern
	formBefore              // before now
	formAfter               // after now
)

// forms describe the forms. What does not depend on the value of the parameter asks this
// table.
var forms = [...]struct {
	any      bool // it holds for any value
	unending bool // it holds for any number of values, negated or not
	integers bool // it compares integers by value
	timed    bool // it compares with the time of the request, and is no part of the identity
	spaced   bool // blanks surround its operator in the canonical text
}{
	formList:    {},
	formPresent: {any: true, unending: true},
	formAbsent:  {},
	formAbove:   {unending: true, integers: true},
	formBelow:   {unending: true, integers: true},
	formDict:    {spaced: true},
	formGlob:    {unending: true, spaced: true},
	formBefore:  {unending: true, timed: true, spaced: true},
	formAfter:   {unending: true, timed: true, spaced: true},
}

// Condition is a rule's condition on one parameter. It is immutable.
type Condition struct {
	Name    string // the parameter
	Negated bool   // !=, !@, !<, !>, !~
	Joint   bool   // {~}: the parameter is not part of the identity
	Pos     Position

	form    form
	written string         // the canonical text
	bound   int64          // formAbove, formBelow
	dicts   []*Dict        // formDict: the value is in any of them
	globs   *globs         // formGlob: the value matches any of them
	zone    *time.Location // formBefore, formAfter: the zone of dates

	// formList. A ranged list compares integers and addresses by value; any other
	// list compares only addresses by value. The texts are words, quoted values and
	// the integers of a list that is not ranged.
	ranged    bool
	texts     []string // sorted
	integers  []interval[int64]
	addresses []interval[netip.Addr]
	patterns  []pattern
}

// String returns the canonical text of the condition: `act=ask,answer{~}`.
func (c *Condition) String() string { return c.written }

// Selects reports whether the condition requires particular values, as opposed to
// any value, no value, or any value with exceptions.
func (c *Condition) Selects() bool {
	return !c.Negated && !forms[c.form].any && !c.wantsAbsence()
}

// wantsAbsence reports whether the condition holds for requests without the parameter, and
// for no others.
func (c *Condition) wantsAbsence() bool { return c.form == formAbsent }

// isOpen reports whether the condition holds for any number of values: any value, any
// value with exceptions, or all integers on one side of a bound.
func (c *Condition) isOpen() bool {
	return forms[c.form].unending || c.Negated && !c.wantsAbsence()
}

// isTimed reports whether the condition depends on the time of the request.
func (c *Condition) isTimed() bool { return forms[c.form].timed }

// Holds reports whether the condition holds for a request at a time, in ms since the epoch.
func (c *Condition) Holds(p *Params, now int64) bool {
	raw, _ := p.Get(c.Name)
	var v value
	v.read(raw, c.comparesIntegers(), c.comparesAddresses())
	return c.holds(&v, now)
}

// holds is Holds for a value that has been read.
func (c *Condition) holds(v *value, now int64) bool {
	if v.text == "" {
		return c.wantsAbsence()
	}
	switch c.form {
	case formPresent:
		return true
	case formAbove:
		return v.isInteger && (v.integer > c.bound) != c.Negated
	case formBelow:
		return v.isInteger && (v.integer < c.bound) != c.Negated
	case formDict:
		return c.isInDicts(v) != c.Negated
	case formGlob:
		return c.globs.match(v.text) != c.Negated
	case formBefore, formAfter:
		at, ok := readInstant(v.text, c.zone)
		return ok && (at <= now) == (c.form == formBefore)
	case formList:
		if c.isListed(v) {
			return !c.Negated
		}
		return c.Negated && c.isComparable(v)
	}
	return false // formAbsent: the value is present
}

// isInDicts reports whether the value is in one of the word lists.
func (c *Condition) isInDicts(v *value) bool {
	for _, d := range c.dicts {
		if d.contains(v) {
			return true
		}
	}
	return false
}

// isListed reports whether the value is in the list.
func (c *Condition) isListed(v *value) bool {
	if v.isInteger && contains(c.integers, v.integer, cmp.Compare) {
		return true
	}
	if v.isAddress {
		if contains(c.addresses, v.address, netip.Addr.Compare) {
			return true
		}
		for _, p := range c.patterns {
			if p.matches(v.address) {
				return true
			}
		}
	}
	_, found := slices.BinarySearch(c.texts, v.text)
	return found
}

// isComparable reports whether the list can be compared with a value of this type. A
// list of single values can be compared with any text.
func (c *Condition) isComparable(v *value) bool {
	return !c.ranged || v.isInteger && c.comparesIntegers() || v.isAddress && c.comparesAddresses()
}

// comparesIntegers reports whether the condition compares integers by value, so that
// 007 is 7.
func (c *Condition) comparesIntegers() bool {
	return forms[c.form].integers || len(c.integers) > 0
}

// comparesAddresses reports whether the condition compares addresses by value, so
// that ::ffff:10.0.0.1 is 10.0.0.1.
func (c *Condition) comparesAddresses() bool {
	return len(c.addresses) > 0 || len(c.patterns) > 0 || slices.ContainsFunc(c.dicts, (*Dict).hasAddresses)
}

// pattern is an IPv4 address in which some octets may have any value.
type pattern struct{ value, mask uint32 }

func (p pattern) matches(a netip.Addr) bool {
	return a.Is4() && ipv4(a)&p.mask == p.value
}

func ipv4(a netip.Addr) uint32 {
	b := a.As4()
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

// value is the value of a request's parameter in all forms that conditions compare.
type value struct {
	text string // trimmed; "" if the parameter is absent
	// The rest is set only if a condition compares the parameter in this way.
	isInteger, isAddress bool
	integer              int64
	address              netip.Addr
	source               string // the kind of a later source that supplied it; "" for the first
}

// read sets v to a request's value.
func (v *value) read(raw string, integers, addresses bool) {
	*v = value{text: strings.TrimSpace(raw)}
	if integers {
		v.integer, v.isInteger = parseInteger(v.text)
	}
	if addresses {
		v.address, v.isAddress = parseAddress(v.text)
	}
}
