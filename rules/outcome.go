package rules

import (
	"strings"

	"github.com/koalagate/koalagate/internal/hits"
)

// ResponsePrefix begins the names of the parameters that describe how a request ended.
// They come with a settlement, never with a request.
const ResponsePrefix = "response."

// defaultSettle is how long an outcome rule waits for the end of a request unless it
// states settle, in seconds.
const defaultSettle = 600

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

func parseUsed(p *parser, d *ruleDecl, w word, used bool) {
	switch {
	case w.value.empty():
	case !w.value.isName() || !isOfResponse(w.value.text()):
		p.reportf(w.value, errResponse, "want used="+ResponsePrefix+"NAME", "%q is no parameter of the response", w.value.mention())
	case used:
		d.Used, d.used = w.value.text(), w.name
	}
}

// checkSettling checks what a rule learns from the response.
func (p *parser) checkSettling(d *ruleDecl) {
	for i, c := range d.Conditions {
		switch {
		case !c.OfResponse():
			continue
		case !settling.has(d.Method):
			p.reportf(d.places[i], errResponse, "use a [count], [leak] or [token] rule, or remove the condition", "a condition on the response in a %s rule", d.Method)
			return
		case c.Joint && c.form != formAbsent:
			p.reportf(d.places[i], warnNoEffect, "remove it: a parameter of the response is not part of the identity", "{~} has no effect here")
		}
		if d.outcome = true; d.Settle == 0 {
			d.Settle = defaultSettle
		}
	}
	switch {
	case d.outcome && d.Wait > 0:
		p.reportf(d.wait, errResponse, "remove wait or the condition on the response", "a rule that counts by the response makes nobody wait")
	case d.Used != "" && d.outcome:
		p.reportf(d.used, warnNoUse, "remove it: the weight of the request is counted", "used has no effect in a rule that counts by the response")
	case d.Used != "" && d.Settle == 0:
		p.reportf(d.used, warnNoUse, "add settle=SECONDS, or remove it", "used has no effect in a rule without an estimate")
	}
	if isOfResponse(d.Cost) {
		p.reportf(d.cost, errResponse, "use settle and used: the cost is known before the request runs", "the cost is a parameter of the response")
	}
	for _, v := range d.varying {
		if isOfResponse(v.param.text()) {
			p.reportf(v.param, errResponse, "use a parameter of the request: the limit is known before the request runs", "the limit depends on a parameter of the response")
		}
	}
}
