package rules

import (
	"strings"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/method"
)

// usualStream is the time in seconds that streams of language models and downloads
// usually take.
const usualStream = 30

// warnSettling reports rules that settle, and will probably not do so as intended.
func (p *parser) warnSettling() {
	var estimates []*ruleDecl
	holds := p.heldIdentities()
	for _, d := range p.eachRule() {
		if !d.settles() {
			continue
		}
		if doors, selects := d.doors(); selects && len(doors) == 1 && doorname.Of(doors[0]).NoReports {
			p.reportf(d.at, warnNoReport, "have the application call /v1/settle, or limit the rule to another door",
				"no gateway at the door %s reports how a request ended", doors[0])
		}
		switch {
		case method.Of(d.Method).Holds && d.Time < usualStream:
			p.reportf(d.at, warnShortHold, "state the longest time that a request takes, or renew the receipt meanwhile",
				"a hold ends after %d s, and streams usually take longer", d.Time)
		case !method.Of(d.Method).Holds && d.IsOutcome():
			if !holds[identityNames(d.Rule)] {
				p.reportf(d.at, warnNoHold, "add a [hold] rule that counts by the same parameters",
					"requests that run at the same time are admitted before any of them is counted")
			}
		case !method.Of(d.Method).Holds && d.Used == "":
			p.warnSameUse(estimates, d)
			estimates = append(estimates, d)
		}
	}
}

// heldIdentities returns the identities of the hold rules, as identityNames returns them.
func (p *parser) heldIdentities() map[string]bool {
	list := make(map[string]bool)
	for _, d := range p.eachRule() {
		if method.Of(d.Method).Holds && d.Enforced() {
			list[identityNames(d.Rule)] = true
		}
	}
	return list
}

func identityNames(r *Rule) string { return strings.Join(r.CountsBy(), ",") }

// maxCompared is the number of rules that a rule with an estimate is compared with.
const maxCompared = 32

// warnSameUse reports a rule with an estimate that becomes the same number of hits as
// the estimate of a rule above.
func (p *parser) warnSameUse(above []*ruleDecl, d *ruleDecl) {
	byName := d.byName()
	for _, other := range above[max(0, len(above)-maxCompared):] {
		if !exclude(other.Rule, byName) {
			p.reportf(d.at, warnSameUse, "add used=response.NAME to the rules, unless both count the same",
				"a request that also matches rule %d is settled with the same hits on both", other.Return)
			return
		}
	}
}

// exclude reports whether no request matches both a rule and one with the conditions b, as far as
// their lists of values and the parameters that they require show.
func exclude(a *Rule, b map[string]*Condition) bool {
	for _, ca := range a.Conditions {
		cb := b[ca.Name]
		if cb == nil || ca.OfResponse() {
			continue
		}
		if ca.wantsAbsence() != cb.wantsAbsence() {
			return true
		}
		if ca.requiresTexts() && cb.requiresTexts() && !haveCommon(ca.texts, cb.texts) {
			return true
		}
	}
	return false
}

// haveCommon reports whether two sorted lists have a text in common.
func haveCommon(a, b []string) bool {
	for len(a) > 0 && len(b) > 0 {
		switch strings.Compare(a[0], b[0]) {
		case 0:
			return true
		case -1:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return false
}
