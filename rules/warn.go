package rules

import (
	"fmt"
	"slices"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/method"
)

// warn reports statements of a set without errors that have no effect, or probably
// not the intended one.
func (p *parser) warn(set *Set) {
	for _, d := range p.dicts {
		if !d.used {
			p.reportf(d.name, warnDictUnused, "remove it", "no rule uses the word list %s", d.name.text())
		}
	}
	for _, d := range p.tables {
		if !d.used {
			p.reportf(d.name, warnTableUnused, "remove it", "no rule or parameter uses the table %s", d.name.text())
		}
	}
	for _, warn := range []func(){
		p.warnDays, p.warnUncounted, p.warnQueues, p.warnBans, p.warnSettling, p.warnSmallParts, p.warnUnshared, p.warnTooSmall, p.warnOver, p.warnRefusals, p.warnUnreachable, p.warnResults, p.warnTokens, p.warnOutcomes, p.warnRawTokens, p.warnInstants,
		func() { p.warnUnused(set) },
	} {
		if warn(); !p.at(0) {
			return
		}
	}
	supplied := newSupply(p.params, &p.routes, p.tokens)
	warnings := []func(*supply){p.warnSupply, p.warnRoutes, p.warnForwards, p.warnConstants, p.warnDerived, p.warnDoors}
	if len(p.params) > 0 {
		warnings = append(warnings, func(*supply) { p.warnUnread() }, p.warnHashed, p.warnLower, p.warnTrust)
	}
	for _, warn := range warnings {
		if warn(supplied); !p.at(0) {
			return
		}
	}
}

// isForGateways reports whether the files are evidently for gateways: they define how
// parameters are derived from requests, or which of them applications receive.
func (p *parser) isForGateways() bool {
	return p.seen[paramsSection] || p.seen[routesSection] || p.seen[forwardSection]
}

// warnDays reports the first rule that counts by calendar days, has since or until, or
// compares dates with the time, if neither the files nor the service state a time zone.
func (p *parser) warnDays() {
	if p.timezone != "" || p.options.Timezone != "" {
		return
	}
	for _, d := range p.eachRule() {
		var what string
		switch {
		case d.usesCalendar():
			what = "counts by calendar days"
		case d.isTimed():
			what = "begins or ends at a local time"
		case slices.ContainsFunc(d.Conditions, (*Condition).isTimed):
			what = "compares local times"
		default:
			continue
		}
		p.reportf(d.at, warnZone, "write timezone : "+DefaultTimezone+", or another zone, under [settings]",
			"the rule %s without a stated time zone, so %s applies", what, DefaultTimezone)
		return
	}
}

// warnQueues reports waits that are longer than what gateways give by default, and
// buckets that refused requests drain.
func (p *parser) warnQueues() {
	for _, d := range p.eachRule() {
		limit, gateway := d.patience()
		if d.Wait > limit {
			p.reportf(d.wait, warnLongWait, fmt.Sprintf("set the timeout of the filter above %d ms, or limit the rule to another door", d.Wait),
				"the rule may wait for %d ms, and %s for %d ms by default", d.Wait, gateway, limit)
		}
		if d.Overdraft && method.Of(d.Method).Refills {
			p.reportf(d.overdraft, warnLockOut, "use a [count] rule, whose window ends whatever was refused",
				"a flood of refused requests empties the bucket far below zero, and locks its identity out until it is refilled")
		}
	}
}

// patience returns the least time, in ms, for which the gateways of the rule's doors wait
// unless they are configured otherwise, and the gateway with it; without such a gateway the
// longest wait of a rule.
func (r *Rule) patience() (limit int64, gateway string) {
	doors, selects := r.doors()
	if !selects {
		doors = doorNames
	}
	limit = maxWait
	for _, name := range doors {
		if door := doorname.Of(name); door.Timeout > 0 && door.Timeout < limit {
			limit, gateway = door.Timeout, door.Filter
		}
	}
	return limit, gateway
}

// warnBans reports bans that end before the window in which they began would. After a ban
// the counter is empty, so that such a ban makes the limit looser.
func (p *parser) warnBans() {
	for _, d := range p.eachRule() {
		if d.Ban > 0 && d.Ban < d.Time {
			p.reportf(d.ban, warnShortBan, "want at least the time of the rule, or remove ban",
				"the ban of %d s empties the counter before a window of %d s ends, so that clients get new hits earlier than without it", d.Ban, d.Time)
		}
	}
}

// minPart is the part of a limit from which holding it in advance can save calls to Redis:
// the hits within 50 ms for which an instance asks for a part.
const minPart = 4

// warnSmallParts reports limits with lease of which instances never hold a part. Gateways at
// a door that decide by themselves need lease for shares.
func (p *parser) warnSmallParts() {
	for _, d := range p.eachRule() {
		whole, limit, half := d.Count, d.Count, ""
		if method.Of(d.Method).Refills { // as many hits may be missing of its refill
			whole, limit, half = d.Burst, d.Burst/2, "half of "
		}
		if d.Lease > 0 && whole > 0 && limit*d.Lease < minPart*1000 && !d.selectsDoor(shares) {
			p.reportf(d.lease, warnSmallLease, "remove lease: a limit this small costs Redis little", "%s%s of the limit of %d is less than four hits, and holding so few in advance saves no calls to Redis", half, d.lease.text(), whole)
		}
	}
}

// shares reports whether gateways at a door decide by themselves, with shares of limits.
func shares(d *doorname.Door) bool { return d.Shares }

// warnUnshared reports limits that gateways at a door can only keep with shares of them, which
// the rules do not allow.
func (p *parser) warnUnshared() {
	for _, d := range p.eachRule() {
		if !d.Enforced() || !d.Counts() || !d.selectsDoor(shares) {
			continue
		}
		switch word := d.Unassignable(); word {
		case "":
		case "result":
			p.reportf(d.at, warnUnshared, "use an entry that denies, or limit the rule to another door", "the gateways of the door decide by themselves, and get no share of a limit above which requests are allowed")
		case "time":
			p.reportf(d.at, warnUnshared, "use a window of 60 s at least or a [token] rule, or limit the rule to another door", "the gateways of the door decide by themselves, and get no share of a window of %d s", d.Time)
		case "lease":
			p.reportf(d.at, warnUnshared, "add lease=20%, or limit the rule to another door", "the gateways of the door decide by themselves, and get no share of a limit without lease")
		case d.Method.String():
			p.reportf(d.at, warnUnshared, "use a [count] or [token] rule with lease, or limit the rule to another door", "the gateways of the door decide by themselves, and get no share of the limit of a %s rule", d.Method)
		default:
			p.reportf(d.at, warnUnshared, "remove "+word+", or limit the rule to another door", "the gateways of the door decide by themselves, and get no share of the limit because of %s", word)
		}
	}
}

// warnTooSmall reports limits that are too small for shares, of rules that such gateways may meet:
// the door is in use if a rule requires it.
func (p *parser) warnTooSmall() {
	if !slices.ContainsFunc(p.rules, func(d *ruleDecl) bool { return d.selectsDoor(shares) }) {
		return
	}
	sharing := slices.DeleteFunc(slices.Clone(doorNames), func(name string) bool { return !shares(doorname.Of(name)) })
	for _, d := range p.eachRule() {
		none := d.Count == 0 || method.Of(d.Method).Refills && d.Burst == 0 // refuses all, or depends on the request
		at := slices.IndexFunc(sharing, d.mayMeet)
		if none || at < 0 || !d.Enforced() || !d.Counts() || d.Unassignable() != "" {
			continue
		}
		if word, least := method.Of(d.Method).TooSmall(d.Time, d.Count, d.Burst, d.Lease); word != "" {
			p.reportf(d.lease, warnTooSmall, fmt.Sprintf("want %s=%d at least, or limit the rule to another door", word, least),
				"the gateways of the door %s decide by themselves, and get no share of a limit with so small a %s as %d", sharing[at], word, *d.of(word))
		}
	}
}

// warnUncounted reports thresholds from tables whose rows are found by a parameter that
// is not part of the identity.
func (p *parser) warnUncounted() {
	for _, d := range p.eachRule() {
		for _, v := range d.varying {
			t := &d.Thresholds[v.index]
			isCounted := slices.ContainsFunc(d.Conditions, func(c *Condition) bool { return c.Name == t.Param && c.identifies() })
			if t.Table != "" && !isCounted {
				p.reportf(v.param, warnByUncounted, "add a condition on "+t.Param+" without {~}, such as "+t.Param+"=+, if each is to have a counter of its own",
					"requests with different values of %s share one counter and have different limits", t.Param)
			}
		}
	}
}

// warnRefusals reports rules with a limit that never refuse a request.
func (p *parser) warnRefusals() {
	for _, d := range p.eachRule() {
		if d.Counts() && d.Mark == "" && d.Result.Verdict() == Allow {
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
		if !set.Needs(d.Name) {
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
			if !set.Needs(c.Name) && !reported[c.Name] {
				reported[c.Name] = true
				p.reportf(e.at, warnParamUnused, "remove it", "no rule uses the parameter %s", c.Name)
			}
		}
	}
}

// warnOver reports rules that have ended, if the options have a clock.
func (p *parser) warnOver() {
	if p.options.Now == nil {
		return
	}
	now := p.options.Now().UnixMilli()
	for _, d := range p.eachRule() {
		if d.Until != 0 && d.Until <= now {
			p.reportf(d.until.at, warnOver, "remove the rule, or choose a later time", "the rule ended at %s and no longer matches", d.until.at.text())
		}
	}
}
