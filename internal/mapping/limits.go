package mapping

import (
	"slices"
	"unicode/utf8"

	"github.com/koalagate/koalagate/rules"
)

// The bounds of what one request may bring.
const (
	MaxParams = 64       // parameters that no rule names, together with those that rules do
	MaxValue  = 4 * 1024 // bytes of a value; the rest is replaced by a digest
)

// limit holds p to the bounds. It takes out what is blank, shortens long
// values, and where there are too many parameters drops those that no rule
// names: the decision does not change by them. Those that rules name stay,
// however many: without one of them its rules would not be met, and a limit
// would be passed by. Their number is bounded by the rule files, which are the
// operator's own.
func limit(set *rules.Set, p *rules.Params) {
	for i := p.Len() - 1; i >= 0; i-- {
		parameter := p.List()[i]
		switch {
		case isBlank(parameter.Value):
			p.Delete(parameter.Name)
		case len(parameter.Value) > MaxValue:
			p.Set(parameter.Name, shorten(parameter.Value))
		}
	}
	for i := p.Len() - 1; i >= 0 && p.Len() > MaxParams; i-- {
		if name := p.List()[i].Name; !set.Uses(name) {
			p.Delete(name)
		}
	}
}

// shorten cuts a long value at MaxValue bytes, or just before the character
// that stands across, and puts a digest in place of the rest. The outcome is
// longer than MaxValue, so that it is no other value as it stands, and two
// different values stay different. The blanks around it go first, as they do
// in a condition: their number must not make another value.
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

// once tells the first occurrence of a name from later ones. Beyond MaxParams
// names it passes over those that no rule names, which bounds the work on a
// request of very many.
type once struct {
	set  *rules.Set
	few  [12]string // the first names: an ordinary request has no more, and costs no memory
	n    int        // of them
	more []string
}

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
