package rules

import (
	"fmt"
	"slices"
)

// warnTrust reports rules that trust values which clients set, and rules that requests
// without a parameter avoid.
func (p *parser) warnTrust(s *supply) {
	g := &guards{supply: s, pauses: &p.pauses, rules: p.rules}
	refusesByDefault := slices.ContainsFunc(p.results, func(d *resultDecl) bool { return d.Number == 0 && d.Verdict() != Allow })
	for _, d := range p.eachRule() {
		if d.isForOwnParams() {
			continue
		}
		p.warnCost(d, s)
		p.warnClientLimits(d, s)
		switch {
		case !d.refuses():
			p.warnAllowed(d, s)
		case d.Counts():
			if !refusesByDefault {
				p.warnAbsent(d, g)
			}
			if refusesByDefault || !p.warnOmittable(d, g) {
				p.warnInvented(d, g, refusesByDefault)
			}
		default:
			p.warnAbsent(d, g)
		}
	}
}

// warnCost reports a cost that a client can set.
func (p *parser) warnCost(d *ruleDecl, s *supply) {
	if from := s.clientSource(d.Cost); from != nil {
		p.reportf(d.cost, warnClientCost, fmt.Sprintf("let the gateway set it: %s : gateway", d.Cost),
			"clients can set the cost %s by %s, and a cost of 0 is free", d.Cost, from)
	}
}

// warnClientLimits reports thresholds that are the values of parameters that a client can
// set, and tables in which a client can choose a row that is not there.
func (p *parser) warnClientLimits(d *ruleDecl, s *supply) {
	for _, v := range d.varying {
		t := &d.Thresholds[v.index]
		switch from := s.clientSource(t.Param); {
		case from == nil:
		case t.Table == "":
			p.reportf(v.param, warnClientLimit, fmt.Sprintf("let the gateway set it: %s : gateway, or use a table", t.Param),
				"clients can set %s by %s, which is the %s of the rule", t.Param, from, t.Word)
		case t.Else == Unlimited:
			p.reportf(v.param, warnUnlimitKey, fmt.Sprintf("write a limit after else, or let the gateway set it: %s : gateway", t.Param),
				"clients can set %s by %s, and a value that the table does not have is not limited", t.Param, from)
		}
	}
}

// warnAllowed reports a direct rule that allows requests for a value that any client can
// send. A value from a list of hashed ones is a secret.
func (p *parser) warnAllowed(d *ruleDecl, s *supply) {
	if d.Counts() || d.Shadow {
		return
	}
	ground := -1
	for i, c := range d.Conditions {
		from := s.clientSource(c.Name)
		switch {
		case c.wantsAbsence(), from == nil && s.identifiesRequest(c.Name):
		case from == nil, from.Hashed && c.Selects():
			return
		case ground < 0:
			ground = i
		}
	}
	if ground >= 0 {
		name := d.Conditions[ground].Name
		p.reportf(d.places[ground], warnClientAllow,
			fmt.Sprintf("let the gateway set it (%s : gateway), declare secrets as hashed, or add a condition on the client's address", name),
			"the rule allows every client that sends the right %s (%s)", name, s.clientSource(name))
	}
}

// warnOmittable reports a limit whose identity is up to the client: without the parameter
// no rule limits the request, and each value has a limit of its own.
func (p *parser) warnOmittable(d *ruleDecl, g *guards) bool {
	at := -1
	for i, c := range d.Conditions {
		if !c.identifies() || !c.isOpen() || g.supply.identifiesRequest(c.Name) {
			continue
		}
		if !g.supply.isOmittable(c.Name) {
			return false
		}
		if at < 0 && !c.Negated && !g.coverOmission(d.Rule, c.Name, isLimit) {
			at = i
		}
	}
	if at < 0 {
		return false
	}
	name := d.Conditions[at].Name
	hint := fmt.Sprintf("add a source after else, such as client-ip, or a rule for requests without it (%s!=+)", name)
	if g.supply.chosenSource(d.Conditions[at]) != nil {
		hint = "add a rule that limits by address"
	}
	const omits = "a client that leaves out %s (%s) is not limited"
	if g.supply.clientSource(name) == nil { // a claim, of which a client has one value
		p.reportf(d.places[at], warnOmittable, hint, omits, name, g.supply.omittedSource(name))
		return true
	}
	p.reportf(d.places[at], warnOmittable, hint, omits+", and one that varies it has a limit per value", name, g.supply.clientSource(name))
	return true
}

// isLimit is the condition on guards of limits.
func isLimit(*guard) bool { return true }

// warnInvented reports the first parameter in the identity of a limit for which a client
// can invent values. A header that requests must have is the gateway's.
func (p *parser) warnInvented(d *ruleDecl, g *guards, refusesByDefault bool) {
	for i, c := range d.Conditions {
		if !c.identifies() || !c.isOpen() || g.coverInvention(d.Rule, c.Name) {
			continue
		}
		from := g.supply.chosenSource(c)
		if from == nil && g.supply.isOmittable(c.Name) && !refusesByDefault && !g.coverOmission(d.Rule, c.Name, isLimit) {
			from = g.supply.clientSource(c.Name)
		}
		if from != nil {
			p.reportf(d.places[i], warnInvented,
				"refuse unknown values, exclude the value from the identity with {~}, or add a rule that limits by address",
				"a client that invents values of %s (%s) has a new limit for each", c.Name, from)
			return
		}
	}
}

// warnAbsent reports negated conditions that requests without the parameter avoid. A
// limit for such requests is no substitute for a rule that refuses at once.
func (p *parser) warnAbsent(d *ruleDecl, g *guards) {
	for i, c := range d.Conditions {
		if !c.Negated || c.wantsAbsence() || !g.supply.isOptional(c.Name) {
			continue
		}
		accept := func(q *guard) bool { return d.Counts() || !q.Counts() || g.namesAbsent(q.Rule, c.Name) }
		if !g.coverOmission(d.Rule, c.Name, accept) {
			p.reportf(d.places[i], warnAbsent,
				fmt.Sprintf("add a rule for such requests (%s!=+), or a source after else that always has a value", c.Name),
				"a request without %s does not match %s, so the rule does not apply to it", c.Name, c)
		}
	}
}
