package rules

import (
	"fmt"
	"slices"

	"github.com/koalagate/koalagate/internal/doorname"
)

// warnSupply reports parameters that rules and [forward] use and nothing supplies. It needs [params]
// or [routes], or a condition on the door: without them all parameters may come from the
// gateway's configuration or an application.
func (p *parser) warnSupply(s *supply) {
	names := slices.Concat(derivedNames, p.declaredNames())
	reported := make(map[string]bool)
	check := func(d *ruleDecl, name string, at span) {
		if !reported[name] && p.lacks(d.Rule, name, s) {
			reported[name] = true
			p.warnUnsupplied(name, at, names)
		}
	}
	for _, d := range p.eachRule() {
		if _, selects := d.doors(); !selects && !p.isForGateways() {
			continue
		}
		for i, c := range d.Conditions {
			if !c.OfResponse() {
				check(d, c.Name, d.places[i])
			}
		}
		if d.Cost != "" {
			check(d, d.Cost, d.cost)
		}
		for _, v := range d.varying {
			check(d, v.param.text(), v.param)
		}
	}
	p.warnUnsuppliedKeys(s, names, reported)
	for _, d := range p.forwards {
		if !reported[d.Param] && !s.supplies(d.Param) {
			reported[d.Param] = true
			p.warnUnsupplied(d.Param, d.param, names)
		}
	}
}

// warnUnsuppliedKeys reports parameters that nothing supplies and by which [params] reads
// tables.
func (p *parser) warnUnsuppliedKeys(s *supply, names []string, reported map[string]bool) {
	for _, d := range p.params {
		for i, by := range d.by {
			if name := d.Sources[i].By; name != "" && !reported[name] && !s.supplies(name) {
				reported[name] = true
				p.warnUnsupplied(name, by, names)
			}
		}
	}
}

// lacks reports whether no request that the rule is for has the parameter. The
// configuration of a gateway may set any parameter at a door that has a place for it, and at
// an unknown one. No gateway sets a parameter client-ip, which is the name of a source.
func (p *parser) lacks(r *Rule, name string, s *supply) bool {
	doors, selects := r.doors()
	switch {
	case s.supplies(name), r.isForOwnParams():
		return false
	case !selects:
		return p.isForGateways()
	case len(doors) == 0: // a word list
		return false
	}
	return name == clientIP || !slices.ContainsFunc(doors, func(name string) bool {
		door := doorname.Of(name)
		return door.Adds != doorname.None || !door.IsKnown()
	})
}

// warnUnread reports sources after client-ip that only requests with an address have. The
// calls of the rate limit service have descriptors and no address.
func (p *parser) warnUnread() {
	for _, d := range p.params {
		first := slices.IndexFunc(d.Sources, func(s ParamSource) bool { return s.Kind == FromClientIP })
		for i := first + 1; first >= 0 && i < len(d.Sources); i++ {
			if d.Sources[i].Kind.is().request {
				p.reportf(d.name, warnUnreadFrom, "write client-ip last", "%s never reads %s: each request with it has an address, too", d.Name, &d.Sources[i])
				return
			}
		}
	}
}

// clientIP is the source of the client's address.
var clientIP = sourceWords[FromClientIP].name

// declaredNames returns the parameters that [params], [routes] and [tokens] supply.
func (p *parser) declaredNames() []string {
	var names []string
	for _, d := range p.params {
		names = append(names, d.Name)
	}
	for _, e := range p.routes.list {
		for _, c := range e.constants {
			names = append(names, c.Name)
		}
		for _, v := range e.variables {
			names = append(names, v.name)
		}
	}
	for _, d := range p.tokens {
		names = append(names, d.Param)
	}
	return names
}

// warnUnsupplied reports a parameter that is not supplied.
func (p *parser) warnUnsupplied(name string, at span, names []string) {
	if p.found.skips(warnNoSupply) {
		return
	}
	f := Finding{
		Message: "neither [params] nor [routes] supplies the parameter " + name,
		Hint:    "declare it in [params], unless the gateway's configuration sets it", Suggestion: suggest(name, names),
	}
	if name == clientIP {
		f.Hint, f.Suggestion = "client-ip is a source of [params]; the parameter with the address is ip", "ip"
	}
	p.found.add(warnNoSupply, at, f)
}

// warnRoutes reports variables of paths that replace a parameter which the client cannot choose
// otherwise.
func (p *parser) warnRoutes(s *supply) {
	for _, e := range p.routes.list {
		for _, v := range e.variables {
			d := s.declared[v.name]
			if d == nil || s.outcomes[v.name] {
				continue
			}
			if i := slices.IndexFunc(d.Sources, func(from ParamSource) bool { return from.Kind.is().trusted }); i >= 0 {
				p.reportf(e.at, warnRouteTrust, "rename the variable of the path or the parameter",
					"clients choose %s by the path: {%s} replaces the value from %s", v.name, v.name, &d.Sources[i])
			}
		}
	}
}

// warnConstants reports conditions that no value of [routes] satisfies, on parameters
// that nothing else supplies.
func (p *parser) warnConstants(s *supply) {
	if len(s.constants) == 0 {
		return
	}
	for _, d := range p.eachRule() {
		if d.isForOwnParams() {
			continue
		}
		for i, c := range d.Conditions {
			if of := s.onlyConstants(c.Name); of != nil {
				p.warnConstant(c, d.places[i], of)
			}
		}
	}
}

// The maximum number of constants that a condition without words is tried with, and their
// maximum length together in bytes, so that the check of n rules takes linear time.
const (
	maxTried     = 100
	maxTriedSize = 8 << 10
)

// warnConstant reports the first word of a condition that no route sets, or else a
// condition that holds for no constant. Word lists change at run time and are not
// reported.
func (p *parser) warnConstant(c *Condition, at span, of *constants) {
	for _, text := range c.texts {
		switch {
		case of.known[text]:
			continue
		case !p.found.skips(warnNoConstant):
			p.found.add(warnNoConstant, at.value(text), Finding{
				Message:    fmt.Sprintf("no route sets %s to %q", c.Name, text),
				Hint:       of.hint(c.Name),
				Suggestion: suggest(text, of.list),
			})
		}
		return
	}
	if c.wantsAbsence() || len(c.dicts) > 0 || c.isTimed() || len(of.list) > maxTried || of.size > maxTriedSize {
		return
	}
	for _, text := range of.list {
		var v value
		v.read(text, c.comparesIntegers(), c.comparesAddresses())
		if c.holds(&v, 0) {
			return
		}
	}
	p.reportf(at, warnNoConstant, of.hint(c.Name), "no route sets %s to a value for which this holds", c.Name)
}

// maxListed is the maximum number of constants in a hint.
const maxListed = 8

func (of *constants) hint(name string) string {
	hint := "want a value from [routes]"
	if len(of.list) <= maxListed {
		listed := make([]string, len(of.list))
		for i, text := range of.list {
			listed[i] = excerpt(text)
		}
		hint = "want " + oneOf(listed)
	}
	return hint + "; if the gateway's configuration sets other values, declare " + name + " in [params]"
}

// value returns the span of a value in the list of the condition s, or s if no value is
// written like that.
func (s span) value(text string) span {
	_, operand, _ := s.cut('=')
	for _, piece := range operand.split(nil, ',') {
		if v, _ := piece.cutJoint(); v.text() == text {
			return v
		}
	}
	return s
}

// warnForwards reports headers that a gateway may forward through a filter that cannot remove
// the client's own.
func (p *parser) warnForwards(s *supply) {
	for _, d := range p.forwards {
		if slices.ContainsFunc(s.sources(d.Param), func(from ParamSource) bool { return from.Kind.is().chosen }) {
			p.reportf(d.header, warnForwardAdds, "have Envoy remove the client's header before its filters run, as the samples do, or forward it at ext_authz",
				"at the rate limit service, %s is added to what the client sent in %s", d.Param, d.Header)
		}
	}
}
