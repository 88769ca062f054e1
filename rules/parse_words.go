package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// word is `name=value` in the third or fourth bracket.
type word struct {
	name, value span
	meant       string // the name that was probably meant, if name is unknown
}

// words are the words of a bracket.
type words []word

func (ws words) find(name string) (word, bool) {
	for _, w := range ws {
		if w.name.text() == name || w.meant == name {
			return w, true
		}
	}
	return word{}, false
}

// words cuts a bracket into words and appends them to ws. Known are the names of the
// bracket's words, and others the words of the bracket elsewhere.
func (p *parser) words(ws words, s span, known, others []string, elsewhere string) words {
	var pieces pieceBuffer
	seen := uint64(0) // the known names that ws has or that were meant, as bits: ws may be long
	add := func(w word) {
		name := cmp.Or(w.meant, w.name.text())
		seen, ws = seen|1<<slices.Index(known, name), append(ws, w)
	}
	for _, piece := range s.statements(pieces[:0]) {
		if piece.empty() {
			p.reportf(piece, warnNoEffect, "remove it", "superfluous semicolon")
			continue
		}
		name, value, found := piece.cut('=')
		switch {
		case slices.Contains(others, name.text()):
			p.reportf(name, errWord, "move it to "+elsewhere, "%s is in the wrong bracket", name.text())
			continue
		case !slices.Contains(known, name.text()):
			// The word that was probably meant is not reported as missing, and its
			// value is read.
			if meant := p.unknown(name, errWord, "word", known); meant != "" {
				add(word{name, value, meant})
			}
			continue
		case !found || value.empty():
			p.reportf(piece.end(), errNoValue, "write "+name.text()+"=VALUE", "%s has no value", name.text())
		}
		if seen&(1<<slices.Index(known, name.text())) != 0 {
			p.reportf(name, errWordTwice, "remove one of them", "%s occurs twice in this line", name.text())
			continue
		}
		add(word{name: name, value: value})
		for _, w := range swallowed(value, known) {
			add(w)
		}
	}
	return ws
}

// swallowed returns the words that ended up inside a value because a semicolon is
// missing. They have no values: the finding is about the semicolon.
func swallowed(value span, known []string) words {
	var ws words
	if strings.IndexByte(value.text(), '=') < 0 {
		return nil // the usual case
	}
	for _, name := range known {
		if strings.Contains(value.text(), name+"=") {
			ws = append(ws, word{value.end(), value.end(), name})
		}
	}
	return ws
}

// number reads the value of a word that is a number without a unit. It returns 0 for a value
// that it reports, and for a missing one, which words reports.
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

// numberHint returns the hint for a value that is not a number.
func (w word) numberHint() string {
	switch text := w.value.text(); {
	case halfWidthHint(text, "") != "":
		return "want digits only; " + halfWidthHint(text, "")
	case strings.ContainsAny(text, ",="):
		return "want digits only; put a ; before the next word"
	case w.name.text() == "result":
		return "want the number of an entry of [result]"
	}
	return "want digits only, without a unit"
}

// maxName is the maximum length of the name of a rule, and of a mark, in bytes.
const maxName = 64

// label reads the name of a rule, or its mark. It returns "" for a value that it reports.
func (p *parser) label(w word) string {
	text := w.value.text()
	if strings.Trim(text, labelLetters) == "" && len(text) <= maxName {
		return text
	}
	likely := strings.Join(strings.Fields(strings.ToLower(strings.Trim(text, `"`))), "-")
	if strings.Trim(likely, labelLetters) != "" || len(likely) > maxName {
		likely = ""
	}
	p.found.add(errChoice, w.value, Finding{
		Message: fmt.Sprintf("invalid %s %q of a rule", w.name.text(), w.value.mention()), Suggestion: likely,
		Hint: fmt.Sprintf("want lower-case letters, digits and _ . -, at most %d", maxName),
	})
	return ""
}

// labelLetters are the characters of the names of rules, and of marks.
const labelLetters = "abcdefghijklmnopqrstuvwxyz0123456789_.-"

// choice reads a value that must be one of a few words, and returns its index. It
// returns 0 for any other value.
func (p *parser) choice(w word, want []string) int {
	if i := slices.Index(want, w.value.text()); i >= 0 || w.value.empty() {
		return max(i, 0)
	}
	p.found.add(errChoice, w.value, Finding{
		Message: fmt.Sprintf("invalid value %q for %s", w.value.mention(), w.name.text()), Hint: "want " + oneOf(want),
		Suggestion: suggest(w.value.text(), want),
	})
	return 0
}
