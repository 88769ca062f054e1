package rules

import (
	"fmt"
	"slices"
	"strings"
)

// The words of the third and the fourth bracket.
var (
	thresholdWords = []string{"time", "count", "base", "burst", "erase1", "erase2", "cost"}
	outcomeWords   = []string{"result", "return", "shadow", "fail", "quiet"}
)

// The bounds of the thresholds.
const (
	maxTime   = 31_622_400 // 366 days in seconds
	maxCount  = 1_000_000_000
	maxReturn = 1<<31 - 1
	maxExact  = 1 << 53 // the greatest integer up to which doubles are exact
	muchLeak  = 100_000 // hits of one identity, above which check warns
)

// word is `name=value` in the third or fourth bracket.
type word struct{ name, value span }

// words is a bracket of them.
type words []word

func (ws words) find(name string) (word, bool) {
	for _, w := range ws {
		if w.name.text() == name {
			return w, true
		}
	}
	return word{}, false
}

// words cuts a bracket into words. Others are those of the other bracket.
func (p *parser) words(s span, known, others []string) words {
	var ws words
	for _, piece := range s.statements() {
		if piece.empty() {
			p.reportf(piece, warnNoEffect, "take it out", "a semicolon too many")
			continue
		}
		name, value, found := piece.cut('=')
		switch {
		case slices.Contains(others, name.text()):
			p.reportf(name, errWord, "put it into the other bracket: "+strings.Join(bracketNames, " "), "%s does not belong here", name.text())
			continue
		case !slices.Contains(known, name.text()):
			p.unknown(name, errWord, "word", known)
			continue
		case !found || value.empty():
			p.reportf(piece.end(), errNoValue, "write "+name.text()+"=VALUE", "%s lacks its value", name.text())
		}
		if _, twice := ws.find(name.text()); twice {
			p.reportf(name, errWordTwice, "take one out", "%s stands twice in this rule", name.text())
			continue
		}
		ws = append(ws, word{name, value})
	}
	return ws
}

// number reads the value of a word. It returns 0 for what it reports, and for
// a value that is missing, which was reported.
func (p *parser) number(w word, least, most int64) int64 {
	text := w.value.text()
	switch {
	case text == "":
		return 0
	case !hasIntegerForm(text):
		p.reportf(w.value, errNumber, "want digits alone, without a unit", "%s=%s is not a whole number", w.name.text(), w.value.mention())
		return 0
	}
	n, ok := parseInteger(text)
	if !ok || n < least || n > most {
		p.reportf(w.value, errRange, fmt.Sprintf("want %d … %d", least, most), "%s=%s is out of range", w.name.text(), w.value.mention())
		return 0
	}
	return n
}

// threshold describes a word of the third bracket.
type threshold struct {
	to       func(r *Rule) *int64
	methods  []Method // that have a use for it
	required bool
	least    int64
	most     int64
}

var counting = []Method{Count, Base, Leak, Token}

// thresholds is in the order in which what is missing is reported.
var thresholds = []struct {
	name string
	threshold
}{
	{"time", threshold{func(r *Rule) *int64 { return &r.Time }, counting, true, 1, maxTime}},
	{"count", threshold{func(r *Rule) *int64 { return &r.Count }, counting, true, 1, maxCount}},
	{"base", threshold{func(r *Rule) *int64 { return &r.Base }, []Method{Base}, true, 1, maxCount}},
	{"burst", threshold{func(r *Rule) *int64 { return &r.Burst }, []Method{Token}, false, 1, maxCount}},
	{"erase1", threshold{func(r *Rule) *int64 { return &r.Erase1 }, []Method{Leak}, false, 0, maxCount}},
	{"erase2", threshold{func(r *Rule) *int64 { return &r.Erase2 }, []Method{Leak}, false, 0, maxCount}},
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
			*t.to(d.Rule) = p.limit(w, t.least, t.most)
		case given:
			p.number(w, 0, 1<<63-1)
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
		p.reportf(w.value, errName, "want letters, digits and _ . : -, beginning with a letter or _", "%q is no name of a parameter", w.value.mention())
	case d.Method == Direct:
		p.noUse(d, w)
	default:
		d.Cost = w.value.text()
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

// leakEntry is about what one hit of a leak rule costs in memory, in bytes.
const leakEntry = 16

// parseOutcome reads the fourth bracket, which ends at end.
func (p *parser) parseOutcome(d *ruleDecl, ws words, end span, methodKnown bool) {
	var given bool
	if d.result, given = ws.find("result"); given {
		d.resultNo = p.number(d.result, 0, maxReturn)
	} else {
		p.reportf(end, errMissing, "write result=N, the entry of [result] that answers when the rule decides", "result is missing")
	}
	if d.returns, given = ws.find("return"); given {
		d.Return = p.number(d.returns, 1, maxReturn)
	} else {
		p.reportf(end, errMissing, "write return=N, a number that no other rule has", "return is missing")
	}
	if w, given := ws.find("shadow"); given {
		d.Shadow = p.choice(w, []string{"0", "1"}) == 1
	}
	if w, given := ws.find("quiet"); given {
		d.Quiet = p.choice(w, []string{"0", "1"}) == 1
		p.counts(d, w, methodKnown)
	}
	if w, given := ws.find("fail"); given {
		d.Fail = failPolicies[p.choice(w, failWords)]
		p.counts(d, w, methodKnown)
	}
}

var (
	failWords    = []string{"rescue", "allow", "deny", "gateway"}
	failPolicies = []FailPolicy{FailRescue, FailAllow, FailDeny, FailGateway}
)

// choice reads a value that is one of a few words, as its place among them.
func (p *parser) choice(w word, among []string) int {
	if i := slices.Index(among, w.value.text()); i >= 0 || w.value.empty() {
		return max(i, 0)
	}
	p.found.add(errChoice, w.value, Finding{
		Message: fmt.Sprintf("%s=%s does not exist", w.name.text(), w.value.mention()), Hint: "want " + oneOf(among),
		Suggestion: suggest(w.value.text(), among),
	})
	return 0
}

// counts reports an outcome that only rules with a counter have a use for.
func (p *parser) counts(d *ruleDecl, w word, methodKnown bool) {
	if methodKnown && !d.Counts() {
		p.noUse(d, w)
	}
}
