package rules

import (
	"fmt"
	"slices"
)

// The bounds of the thresholds.
const (
	maxTime  = 31_622_400 // 366 days in seconds
	maxCount = 1_000_000_000
	maxExact = 1 << 53 // the greatest integer up to which doubles are exact
)

// What a leak rule may cost in memory without a warning, in hits of one
// identity, and about what each of them costs, in bytes.
const (
	muchLeak  = 100_000
	leakEntry = 16
)

// threshold is a number of the third bracket.
type threshold struct {
	name        string
	methods     []Method // that have a use for it
	required    bool     // by these
	least, most int64
	of          func(r *Rule) *int64
}

var counting = []Method{Count, Base, Leak, Token}

// thresholds is in the order in which what is missing is reported.
var thresholds = []threshold{
	{"time", counting, true, 1, maxTime, func(r *Rule) *int64 { return &r.Time }},
	{"count", counting, true, 1, maxCount, func(r *Rule) *int64 { return &r.Count }},
	{"base", []Method{Base}, true, 1, maxCount, func(r *Rule) *int64 { return &r.Base }},
	{"burst", []Method{Token}, false, 1, maxCount, func(r *Rule) *int64 { return &r.Burst }},
	{"erase1", []Method{Leak}, false, 0, maxCount, func(r *Rule) *int64 { return &r.Erase1 }},
	{"erase2", []Method{Leak}, false, 0, maxCount, func(r *Rule) *int64 { return &r.Erase2 }},
}

// noLimit are the words whose 0 is no limit in Koala's manual.
var noLimit = map[string]struct {
	code *Code
	hint string
}{
	"count": {errCountZero, "a rule without a limit is none: take it out; to refuse every request use [direct]"},
	"base":  {errBaseZero, "with no free hits use [count]; else write base=N, the number that is free each day"},
}

// parseThresholds reads the third bracket, which ends at end.
func (p *parser) parseThresholds(d *ruleDecl, ws words, end span, methodKnown bool) {
	if !methodKnown {
		return // what has a use, and what is missing, is the method's to say
	}
	for _, t := range thresholds {
		w, given := ws.find(t.name)
		used := slices.Contains(t.methods, d.Method)
		switch {
		case given && used:
			*t.of(d.Rule) = p.limit(w, t.least, t.most)
		case given:
			p.number(w, 0, mostInt64)
			if d.Method != Direct || t.name != "time" && t.name != "count" {
				p.noUse(d, w)
			}
		case used && t.name == "base":
			p.reportf(end, errBaseZero, noLimit["base"].hint, "base is missing")
		case used && t.required:
			p.reportf(end, errMissing, "write "+t.name+"=N", "%s is missing", t.name)
		}
	}
	if w, given := ws.find("cost"); given {
		p.parseCost(d, w)
	}
	p.checkThresholds(d, ws)
}

// limit is number, with a finding of its own for 0 where Koala sees no limit.
func (p *parser) limit(w word, least, most int64) int64 {
	if n, ok := parseInteger(w.value.text()); ok && n == 0 {
		if zero, special := noLimit[w.name.text()]; special {
			p.reportf(w.value, zero.code, zero.hint, "%s=0 would be no limit", w.name.text())
			return 0
		}
	}
	return p.number(w, least, most)
}

func (p *parser) parseCost(d *ruleDecl, w word) {
	switch {
	case w.value.empty():
	case !w.value.isName():
		p.reportf(w.value, errName, wantName, "%q is no name of a parameter", w.value.mention())
	case d.Method == Direct:
		p.noUse(d, w)
	default:
		d.Cost, d.cost = w.value.text(), w.value
	}
}

func (p *parser) noUse(d *ruleDecl, w word) {
	p.reportf(w.name, warnNoUse, "take it out", "%s has no use in a %s rule", w.name.text(), d.Method)
}

// checkThresholds checks what the thresholds of one rule are together.
func (p *parser) checkThresholds(d *ruleDecl, ws words) {
	switch d.Method {
	case Token:
		w, stated := ws.find("burst")
		if !stated {
			w, _ = ws.find("count")
			d.Burst = d.Count
		}
		if d.Time > 0 && d.Burst > maxExact/(d.Time*1000) {
			p.reportf(w.value, errBucket, fmt.Sprintf("with time=%d want a burst of at most %d", d.Time, maxExact/(d.Time*1000)),
				"burst × time is %d tokens × %d ms, and must not exceed 2^53", d.Burst, d.Time*1000)
		}
	case Leak:
		if d.Count > muchLeak {
			w, _ := ws.find("count")
			p.reportf(w.value, warnLargeLeak, "a [token] rule keeps one number instead",
				"one identity of this rule may keep %d hits and cost %d MB", d.Count, (d.Count*leakEntry+999_999)/1_000_000)
		}
	}
}
