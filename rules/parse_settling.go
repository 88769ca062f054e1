package rules

import "strings"

// defaultSettle is how long an outcome rule waits for the end of a request unless it
// states settle, in seconds.
const defaultSettle = 600

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
		case c.Joint && !c.wantsAbsence():
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

// The range of a lease, in thousandths of the limit.
const (
	minLease = 1
	maxLease = 200
)

// parseLease reads `lease=P%`, with up to one decimal.
func parseLease(p *parser, d *ruleDecl, w word, used bool) {
	text := w.value.text()
	number, percent := strings.CutSuffix(text, "%")
	whole, decimals, found := strings.Cut(number, ".")
	share, ok := int64(0), percent && len(whole) > 0 && len(whole) <= 9 && len(decimals) <= 1 && found == (decimals != "") &&
		isDigits(whole) && (decimals == "" || isDigits(decimals))
	if ok {
		share, _ = parseInteger(whole + (decimals + "0")[:1])
	}
	switch {
	case text == "":
	case !ok:
		p.reportf(w.value, errNumber, "want a percentage with at most one decimal, such as 5% or 0.5%", "lease=%s is not a percentage", w.value.mention())
	case share < minLease || share > maxLease:
		p.reportf(w.value, errRange, "want 0.1% … 20%", "lease=%s is out of range", w.value.mention())
	case !used:
		p.reportf(w.name, errLease, "use a [count] or [token] rule, or remove it", "lease in a %s rule", d.Method)
	default:
		d.Lease, d.lease = share, w.value
	}
}

// isDigits reports whether a text has only digits, if any characters.
func isDigits(text string) bool {
	return strings.Trim(text, "0123456789") == ""
}

// checkLease checks whether parts of the rule's limit can be held in advance: such a part
// has no receipt, no turn, and no response to wait for.
func (p *parser) checkLease(d *ruleDecl) {
	if d.Lease == 0 {
		return
	}
	switch {
	case d.outcome:
		p.reportf(d.lease, errLease, "remove lease or the condition on the response", "lease in a rule that counts by the response")
	case d.Settle > 0:
		p.reportf(d.lease, errLease, "remove lease or settle", "lease in a rule with settle")
	case d.Wait > 0:
		p.reportf(d.lease, errLease, "remove lease or wait", "lease in a rule with wait")
	}
}

// checkMark checks that a rule that marks has no word for its refusals, of which it has none.
func (p *parser) checkMark(d *ruleDecl) {
	if d.Mark == "" {
		return
	}
	for _, word := range []struct {
		name  string
		given bool
	}{{"shadow", d.Shadow}, {"ban", d.Ban > 0}, {"wait", d.Wait > 0}, {"lease", d.Lease > 0}} {
		if word.given {
			p.reportf(d.mark, errMark, "remove mark or "+word.name, "mark in a rule with %s", word.name)
		}
	}
}
