package rules

import "slices"

// derivedNames are the parameters that doors derive from every request. A rate limit
// call has the domain and its descriptors as well.
var derivedNames = []string{"door", "method", "host", "path", "scheme", "ip", "domain"}

// warn reports statements of a set without errors that have no effect, or probably
// not the intended one.
func (p *parser) warn(set *Set) {
	for _, d := range p.dicts {
		if !d.used {
			p.reportf(d.name, warnDictUnused, "remove it", "no rule uses the word list %s", d.name.text())
		}
	}
	p.warnDays()
	p.warnRefusals()
	p.warnUnreachable()
	p.warnResults()
	p.warnUnused(set)
	p.warnSupply()
	p.warnDerived()
}

// warnDays reports the first rule that counts by calendar days, if neither the files
// nor the service state a time zone.
func (p *parser) warnDays() {
	if p.timezone != "" || p.options.Timezone != "" {
		return
	}
	for _, d := range p.rules {
		if d.Method == Base || d.Method == Count && d.Time == Day {
			p.reportf(d.at, warnZone, "write timezone : "+DefaultTimezone+", or another zone, under [settings]",
				"the rule counts by calendar days without a stated time zone, so %s applies", DefaultTimezone)
			return
		}
	}
}

// warnRefusals reports rules with a limit that never refuse a request.
func (p *parser) warnRefusals() {
	for _, d := range p.rules {
		if d.Counts() && d.Result.Verdict() == Allow {
			p.reportf(d.result, warnNoRefusal, "use an entry that denies or challenges",
				"the rule never refuses: entry %d allows, so a request over the limit is allowed without reaching the rules below", d.Result.Number)
		}
	}
}

// warnResults reports fields of entries that have no effect, and statuses that a
// gateway would misread.
func (p *parser) warnResults() {
	for _, d := range p.results {
		switch {
		case d.gateways.line != nil && d.Verdict() == Allow:
			p.reportf(d.gateways, warnNoEffect, "remove it, or give the entry an Err_no", "no effect: entry %d allows, and only refusals have a response of their own", d.Number)
		case d.HTTPStatus >= 200 && d.HTTPStatus < 300:
			p.reportf(d.status, warnSuccess, "want 400 … 599, or 300 … 399 with a Location header", "entry %d refuses with the status %d, which a gateway may take for permission", d.Number, d.HTTPStatus)
		}
	}
}

// warnUnused reports parameters that are declared or set by a route and that no rule
// uses, and derived parameters that clients can set.
func (p *parser) warnUnused(set *Set) {
	for _, d := range p.params {
		if !set.Uses(d.Name) {
			p.reportf(d.name, warnParamUnused, "remove it", "no rule uses the parameter %s", d.Name)
		}
		if slices.Contains(derivedNames, d.Name) && slices.ContainsFunc(d.Sources, isFromClient) {
			p.reportf(d.name, warnClientSets, "remove the header, cookie or query, or rename the parameter",
				"clients can set %s, which doors derive from the request", d.Name)
		}
	}
	reported := make(map[string]bool)
	for _, e := range p.routes.list {
		for _, c := range e.constants {
			if !set.Uses(c.Name) && !reported[c.Name] {
				reported[c.Name] = true
				p.reportf(e.at, warnParamUnused, "remove it", "no rule uses the parameter %s", c.Name)
			}
		}
	}
}

// isFromClient reports whether a client can set the source.
func isFromClient(s ParamSource) bool {
	return s.Kind == FromHeader || s.Kind == FromCookie || s.Kind == FromQuery
}

// warnSupply reports parameters that rules use and nothing supplies. It needs [params]
// or [routes]: without them all parameters may come from the gateway's configuration
// or an application, and so may those of rules for one door or domain.
func (p *parser) warnSupply() {
	if !p.seen[paramsSection] && !p.seen[routesSection] {
		return
	}
	supplied := make(map[string]bool)
	names := slices.Concat(derivedNames, p.declaredNames())
	for _, name := range names {
		supplied[name] = true
	}
	for _, d := range p.rules {
		if slices.ContainsFunc(d.Conditions, func(c *Condition) bool { return c.Name == "door" || c.Name == "domain" }) {
			continue
		}
		for i, c := range d.Conditions {
			p.warnUnsupplied(c.Name, d.places[i], supplied, names)
		}
		if d.Cost != "" {
			p.warnUnsupplied(d.Cost, d.cost, supplied, names)
		}
	}
}

// declaredNames returns the parameters that [params] and [routes] supply.
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
	return names
}

// warnUnsupplied reports a parameter that is not supplied, once.
func (p *parser) warnUnsupplied(name string, at span, supplied map[string]bool, names []string) {
	if supplied[name] {
		return
	}
	supplied[name] = true
	p.found.add(warnNoSupply, at, Finding{
		Message: "neither [params] nor [routes] supplies the parameter " + name,
		Hint:    "declare it in [params], unless the gateway's configuration sets it", Suggestion: suggest(name, names),
	})
}
