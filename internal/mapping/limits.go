package mapping

import (
	"slices"
	"unicode/utf8"

	"github.com/koalagate/koalagate/rules"
)

// The bounds on the parameters of one request.
const (
	MaxParams = 64       // parameters; more are kept only if rules name them
	MaxValue  = 4 * 1024 // bytes of a value; the rest is replaced by a digest
)

// limit applies the bounds to p. It removes blank values, shortens long ones and, if
// there are too many parameters, drops those that no rule names, which do not affect
// the decision. It keeps all parameters that rules name: without one of them its rules
// would not match, and a client could evade a limit. Their number is bounded by the
// rule files, which the operator writes.
func limit(set *rules.Set, p *rules.Params) {
	for i := p.Len() - 1; i >= 0; i-- {
		parameter := p.List()[i]
		switch {
		case isBlank(parameter.Value):
			p.Delete(parameter.Name)
		case len(parameter.Value) > MaxValue:
			if kind, later := p.LaterSource(parameter.Name); later {
				p.SetFrom(kind, parameter.Name, shorten(parameter.Value))
			} else {
				p.Set(parameter.Name, shorten(parameter.Value))
			}
		}
	}
	for i := p.Len() - 1; i >= 0 && p.Len() > MaxParams; i-- {
		if name := p.List()[i].Name; !set.Uses(name) {
			p.Delete(name)
		}
	}
}

// shorten cuts a long value at MaxValue bytes, or before the character that crosses that
// point, and replaces the rest by a digest. The result is longer than MaxValue, so it
// never equals a value that was not shortened, and different values stay different.
// Surrounding blanks are trimmed first, as in conditions, because their number must not
// change the value.
func shorten(value string) string {
	value = trim(value)
	if len(value) <= MaxValue {
		return value
	}
	cut := MaxValue
	for back := 0; back < utf8.UTFMax-1 && !utf8.RuneStart(value[cut]); back++ {
		cut--
	}
	return value[:cut] + digest(value[cut:])
}

// once finds the first occurrence of each name. After MaxParams names it ignores names
// that no rule uses, which bounds the work for a request with very many.
type once struct {
	set  *rules.Set
	few  [12]string // the first names; most requests have no more and need no allocation
	n    int        // the number of names in few
	more []string
}

// first reports whether name occurs for the first time and is not ignored.
func (o *once) first(name string) bool {
	if o.n+len(o.more) >= MaxParams && !o.set.Uses(name) ||
		slices.Contains(o.few[:o.n], name) || slices.Contains(o.more, name) {
		return false
	}
	if o.n < len(o.few) {
		o.few[o.n] = name
		o.n++
	} else {
		o.more = append(o.more, name)
	}
	return true
}
