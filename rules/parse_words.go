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

// maxReturn bounds the numbers of rules and of entries.
const maxReturn = 1<<31 - 1

// word is `name=value` in the third or fourth bracket.
type word struct {
	name, value span
	meant       string // what name was probably meant to be, if it is none
}

// words is a bracket of them.
type words []word

func (ws words) find(name string) (word, bool) {
	for _, w := range ws {
		if w.name.text() == name || w.meant == name {
			return w, true
		}
	}
	return word{}, false
}

// words cuts a bracket into words, and appends them to ws. Others are those of
// the other bracket.
func (p *parser) words(ws words, s span, known, others []string) words {
	var pieces room
	for _, piece := range s.statements(pieces[:0]) {
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
			// What was probably meant is not missing, and its value is read.
			if meant := p.unknown(name, errWord, "word", known); meant != "" {
				ws = append(ws, word{name, value, meant})
			}
			continue
		case !found || value.empty():
			p.reportf(piece.end(), errNoValue, "write "+name.text()+"=VALUE", "%s lacks its value", name.text())
		}
		if _, twice := ws.find(name.text()); twice {
			p.reportf(name, errWordTwice, "take one out", "%s stands twice in this rule", name.text())
			continue
		}
		ws = append(ws, word{name: name, value: value})
		ws = append(ws, swallowed(value, known)...)
	}
	return ws
}

// swallowed are the words that a value holds since a semicolon is missing. They
// have no values: it is the semicolon that is reported.
func swallowed(value span, known []string) words {
	var ws words
	if strings.IndexByte(value.text(), '=') < 0 {
		return nil // as nearly always
	}
	for _, name := range known {
		if strings.Contains(value.text(), name+"=") {
			ws = append(ws, word{value.end(), value.end(), name})
		}
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
		p.reportf(w.value, errNumber, w.numberHint(), "%s=%s is not a whole number", w.name.text(), w.value.mention())
		return 0
	}
	n, ok := parseInteger(text)
	if !ok || n < least || n > most {
		p.reportf(w.value, errRange, fmt.Sprintf("want %d … %d", least, most), "%s=%s is out of range", w.name.text(), w.value.mention())
		return 0
	}
	return n
}

// numberHint says what the value of a word wants to be.
func (w word) numberHint() string {
	switch text := w.value.text(); {
	case halfWidthHint(text, "") != "":
		return "want digits alone; " + halfWidthHint(text, "")
	case strings.ContainsAny(text, ",="):
		return "want digits alone; put a ; before the next word"
	case w.name.text() == "time":
		return "want seconds, in digits alone"
	case w.name.text() == "result":
		return "want the number of an entry of [result]"
	}
	return "want digits alone, without a unit"
}

// parseOutcome reads the fourth bracket, which ends at end.
func (p *parser) parseOutcome(d *ruleDecl, ws words, end span, methodKnown bool) {
	if w, given := ws.find("result"); given {
		d.result, d.resultNo = w.value, p.number(w, 0, maxReturn)
	} else {
		p.reportf(end, errMissing, "write result=N, the entry of [result] that answers when the rule decides", "result is missing")
	}
	if w, given := ws.find("return"); given {
		d.returns, d.Return = w.value, p.number(w, 1, maxReturn)
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
