package mapping

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"github.com/koalagate/koalagate/rules"
)

// The defaults of the bounds on the parameters of one request.
const (
	DefaultMaxParams = 64
	DefaultMaxValue  = 4 * 1024 // bytes
)

// Bound is the name of a bound on the parameters of a request.
type Bound string

// The bounds that Options.Exceeded reports.
const (
	BoundParams    Bound = "params"     // Options.MaxParams
	BoundValueSize Bound = "value_size" // Options.MaxValue
)

// Bounds returns all bounds on parameters.
func Bounds() []Bound { return []Bound{BoundParams, BoundValueSize} }

// limit applies the bounds to p. It removes blank values, shortens long ones and, if
// there are too many parameters, drops parameters that no rule names, which do not affect
// the decision. It keeps all parameters that rules name: without one of them its rules
// would not match, and a client could evade a limit. Their number is bounded by the
// rule files, which the operator writes.
func (q *original) limit(set *rules.Set, o *Options, p *rules.Params) {
	maxValue, long := cmp.Or(o.MaxValue, DefaultMaxValue), false
	for i := p.Len() - 1; i >= 0; i-- {
		parameter := p.List()[i]
		switch {
		case isBlank(parameter.Value):
			p.Delete(parameter.Name)
		case len(parameter.Value) > maxValue:
			long = true
			if kind, later := p.LaterSource(parameter.Name); later {
				p.SetFrom(kind, parameter.Name, shorten(parameter.Value, maxValue))
			} else {
				p.Set(parameter.Name, shorten(parameter.Value, maxValue))
			}
		}
	}
	for i := p.Len() - 1; i >= 0 && p.Len() > q.maxParams; i-- {
		if name := p.List()[i].Name; !set.Uses(name) {
			p.Delete(name)
			q.crowded = true
		}
	}
	if o.Exceeded != nil {
		if long {
			o.Exceeded(BoundValueSize)
		}
		if q.crowded {
			o.Exceeded(BoundParams)
		}
	}
}

// shorten cuts a long value at most bytes, or before the character that crosses that
// point, and replaces the rest by a digest. The result is longer than most bytes, so it
// never equals a value that was not shortened, and different values stay different.
// Surrounding blanks are trimmed first, as in conditions, because their number must not
// change the value.
func shorten(value string, most int) string {
	value = trim(value)
	if len(value) <= most {
		return value
	}
	cut := most
	for back := 0; back < utf8.UTFMax-1 && !utf8.RuneStart(value[cut]); back++ {
		cut--
	}
	return value[:cut] + digest(value[cut:])
}

// once finds the first occurrence of each name. After most names it ignores names
// that no rule uses, which bounds the work for a request with very many.
type once struct {
	set  *rules.Set
	most int
	few  [12]string // the first names; most requests have no more and need no allocation
	n    int        // the number of names in few
	more []string

	ignored bool // a name was ignored
}

// first reports whether name occurs for the first time and is not ignored.
func (o *once) first(name string) bool {
	if o.n+len(o.more) >= o.most && !o.set.Uses(name) {
		o.ignored = true
		return false
	}
	if slices.Contains(o.few[:o.n], name) || slices.Contains(o.more, name) {
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
