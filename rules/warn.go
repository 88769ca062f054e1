package rules

import "slices"

// derivedNames are the parameters that doors make of every request. A rate
// limit call has its domain and its descriptors beside them.
var derivedNames = []string{"door", "method", "host", "path", "scheme", "ip", "domain"}

// warn looks for what a set without errors says in vain, or perhaps does not
// mean.
func (p *parser) warn(set *Set) {
	for _, d := range p.dicts {
		if !d.used {
			p.reportf(d.name, warnDictUnused, "take it out", "no rule uses the word list %s", d.name.text())
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

// warnDays reports the first rule that counts by calendar days whose zone
// nobody stated.
func (p *parser) warnDays() {
	if p.timezone != "" || p.options.Timezone != "" {
		return
	}
	for _, d := range p.rules {
		if d.Method == Base || d.Method == Count && d.Time == Day {
			p.reportf(d.at, warnZone, "write timezone : "+DefaultTimezone+" under [settings], or another",
				"the rule counts by calendar days, and no time zone is stated: they are those of %s", DefaultTimezone)
			return
		}
	}
}

// warnRefusals reports rules with a limit that refuse nobody.
func (p *parser) warnRefusals() {
	for _, d := range p.rules {
		if d.Counts() && d.Result.Verdict() == Allow {
			p.reportf(d.result, warnNoRefusal, "name an entry that denies or challenges",
				"the rule never refuses: entry %d allows, so beyond the limit a request passes, and passes the rules below as well", d.Result.Number)
		}
	}
}

// warnResults reports what entries say in vain, and what a gateway would
// misread.
func (p *parser) warnResults() {
	for _, d := range p.results {
		switch {
		case d.gateways.line != nil && d.Verdict() == Allow:
			p.reportf(d.gateways, warnNoEffect, "take it out, or give the entry an Err_no", "this has no effect: entry %d allows, and only a refusal is answered by the service", d.Number)
		case d.HTTPStatus >= 200 && d.HTTPStatus < 300:
			p.reportf(d.status, warnSuccess, "want 400 … 599, or 300 … 399 with a Location", "entry %d refuses with the status %d, which a gateway may take as leave", d.Number, d.HTTPStatus)
		}
	}
}

// warnUnused reports parameters that are declared, or set by a route, and
// named by no rule; and derived ones that were given away to clients.
func (p *parser) warnUnused(set *Set) {
	for _, d := range p.params {
		if !set.Uses(d.Name) {
			p.reportf(d.name, warnParamUnused, "take it out", "no rule uses the parameter %s", d.Name)
		}
		if slices.Contains(derivedNames, d.Name) && slices.ContainsFunc(d.Sources, isClients) {
			p.reportf(d.name, warnClientSets, "take the header, cookie or query out, or choose another name",
				"%s is what the gateway was asked for, and this lets a client set it", d.Name)
		}
	}
	reported := make(map[string]bool)
	for _, e := range p.routes.list {
		for _, c := range e.constants {
			if !set.Uses(c.Name) && !reported[c.Name] {
				reported[c.Name] = true
				p.reportf(e.at, warnParamUnused, "take it out", "no rule uses the parameter %s", c.Name)
			}
		}
	}
}

// isClients tells whether a client can write the source.
func isClients(s ParamSource) bool {
	return s.Kind == FromHeader || s.Kind == FromCookie || s.Kind == FromQuery
}

// warnSupply reports parameters that rules name and nothing supplies. Without
// [params] and [routes] nobody can tell: all may come from the gateway's
// configuration or an application. Nor can it be told of rules for one door.
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

// declaredNames are the parameters that [params] and [routes] supply.
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
		Hint:    "declare it in [params], if the gateway's configuration does not set it", Suggestion: suggest(name, names),
	})
}
