package rules

import (
	"strings"

	"github.com/koalagate/koalagate/internal/hits"
)

// ResponsePrefix begins the names of the parameters that describe how a request ended.
// They come with a settlement, never with a request.
const ResponsePrefix = "response."

// OfResponse reports whether the condition is on a parameter of the response. It is
// tested when a request is settled, and is no part of the identity.
func (c *Condition) OfResponse() bool { return isOfResponse(c.Name) }

func isOfResponse(name string) bool { return strings.HasPrefix(name, ResponsePrefix) }

// IsOutcome reports whether the rule counts requests by how they ended: it has a
// condition on a parameter of the response.
func (r *Rule) IsOutcome() bool { return r.outcome }

// Settles reports whether the rule has a part in the receipt of a request.
func (r *Rule) Settles() bool { return r.Settle > 0 || r.Method.is().Holds }

// Charges reports whether all conditions on the response hold for the parameters of a
// settlement. Integers may be spelled as hits are, 2e+09 included.
func (r *Rule) Charges(p *Params) bool {
	for _, c := range r.Conditions {
		if c.OfResponse() && !c.holdsAtEnd(p) {
			return false
		}
	}
	return true
}

// holdsAtEnd reports whether the condition holds for the parameters of a settlement.
func (c *Condition) holdsAtEnd(p *Params) bool {
	raw, _ := p.Get(c.Name)
	var v value
	v.read(raw, c.comparesIntegers(), c.comparesAddresses())
	if !v.isInteger && c.comparesIntegers() {
		v.integer, v.isInteger = hits.Parse(v.text)
	}
	return c.holds(&v)
}

// UsedHits returns the hits that a settlement states for the rule, in the parameter that
// used names, and reports whether it does.
func (r *Rule) UsedHits(p *Params) (int64, bool) {
	if r.Used == "" {
		return 0, false
	}
	raw, _ := p.Get(r.Used)
	return hits.Parse(raw)
}
