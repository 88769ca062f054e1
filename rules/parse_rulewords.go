package rules

import (
	"slices"
	"strings"

	"github.com/koalagate/koalagate/internal/method"
	"github.com/koalagate/koalagate/internal/vocabulary"
)

// ruleWord is a word of a rule's third or fourth bracket. The two tables below are
// the only list of these words: parsing, the hints of findings and the checks for
// misplaced and missing words all follow from them.
type ruleWord struct {
	name    string
	methods methods // the methods that use the word; nil for all
	// missing says how to write the word, for the finding about a rule that lacks
	// it. The zero value makes the word optional.
	missing missingWord
	// parse checks the value and, if the rule's method uses the word, stores it.
	// The value is empty if that has been reported.
	parse func(p *parser, d *ruleDecl, w word, used bool)
	// ignored are the methods that do not use the word and may have it.
	ignored methods
	// refused are the methods in whose rules the word is an error.
	refused methods
}

// missingWord is the finding about a required word that a rule lacks.
type missingWord struct {
	code *vocabulary.Code
	hint string
}

// methods is a set of methods, by what a method is.
type methods func(*method.Method) bool

// has reports whether the set contains a method. The zero value is empty.
func (ms methods) has(m Method) bool { return ms != nil && ms(method.Of(m)) }

// The methods that have a word, or do without.
var (
	counting = methods(func(m *method.Method) bool { return m.Counts })
	settling = methods(func(m *method.Method) bool { return m.Settles })
	banning  = methods(func(m *method.Method) bool { return m.Bans })
	waiting  = methods(func(m *method.Method) bool { return m.Waits })
	leasing  = methods(func(m *method.Method) bool { return m.Leases })
	sliding  = methods(func(m *method.Method) bool { return m.Slides })
	bursting = methods(func(m *method.Method) bool { return m.Refills })
	basing   = methods(func(m *method.Method) bool { return m.FirstFree })
	windowed = methods(func(m *method.Method) bool { return m.Windows })
	holding  = methods(func(m *method.Method) bool { return m.Holds })
	unleased = methods(func(m *method.Method) bool { return !m.Leases })
	direct   = methods(func(m *method.Method) bool { return !m.Counts })
)

// thresholds are the words of the third bracket. Koala's manual writes
// `time=1; count=0;` in direct rules.
var thresholds = []ruleWord{
	{name: "time", methods: counting, missing: missingWord{errMissing, "write time=N"}, ignored: direct, parse: parseTime},
	{name: fromWord, parse: parseFrom},
	{name: "count", methods: counting, missing: missingWord{errMissing, "write count=N"}, ignored: direct, parse: countLimit.parse},
	{name: "base", methods: basing, missing: missingWord{errBaseZero, noLimit["base"].hint}, parse: baseLimit.parse},
	{name: "burst", methods: bursting, parse: burstLimit.parse},
	{name: "overdraft", methods: settling, refused: holding, parse: func(p *parser, d *ruleDecl, w word, used bool) {
		d.Overdraft = p.choice(w, offOn) == 1 && used
		d.overdraft = w.name
	}},
	{name: "ban", methods: banning, refused: holding, parse: func(p *parser, d *ruleDecl, w word, used bool) {
		numberWord(&spanUnits, 1, maxTime, func(r *Rule) *int64 { return &r.Ban })(p, d, w, used)
		d.ban = w.value
	}},
	{name: "wait", methods: waiting, refused: holding, parse: parseWait},
	{name: "settle", methods: settling, refused: holding, parse: numberWord(&spanUnits, 1, maxSettle, func(r *Rule) *int64 { return &r.Settle })},
	{name: "used", methods: settling, parse: parseUsed},
	{name: "lease", methods: leasing, ignored: unleased, parse: parseLease},
	{name: "erase1", methods: sliding, parse: numberWord(&countUnits, 0, maxCount, func(r *Rule) *int64 { return &r.Erase1 })},
	{name: "erase2", methods: sliding, parse: numberWord(&countUnits, 0, maxCount, func(r *Rule) *int64 { return &r.Erase2 })},
	{name: "cost", methods: counting, parse: parseCost},
}

// outcomes are the words of the fourth bracket.
var outcomes = []ruleWord{
	{
		name: "result", missing: missingWord{errMissing, "write result=N, the entry of [result] that answers when the rule decides"},
		parse: func(p *parser, d *ruleDecl, w word, _ bool) {
			d.result, d.resultNo = w.value, p.number(w, 0, maxReturn)
		},
	},
	{
		name: "return", missing: missingWord{errMissing, "write return=N, a number that no other rule has"},
		parse: func(p *parser, d *ruleDecl, w word, _ bool) { d.returns, d.Return = w.value, p.number(w, 1, maxReturn) },
	},
	{name: "since", parse: func(p *parser, d *ruleDecl, w word, _ bool) { d.since = p.instant(w) }},
	{name: "until", parse: func(p *parser, d *ruleDecl, w word, _ bool) { d.until = p.instant(w) }},
	{name: "shadow", parse: func(p *parser, d *ruleDecl, w word, _ bool) { d.Shadow = p.choice(w, offOn) == 1 }},
	{name: "mark", methods: counting, parse: func(p *parser, d *ruleDecl, w word, used bool) {
		if mark := p.label(w); used {
			d.mark, d.Mark = w.name, mark
		}
	}},
	{name: "fail", methods: counting, parse: func(p *parser, d *ruleDecl, w word, _ bool) { d.Fail = failPolicies[p.choice(w, failWords)] }},
	{name: "name", parse: func(p *parser, d *ruleDecl, w word, _ bool) { d.name, d.Name = w.value, p.label(w) }},
	{name: "quiet", methods: counting, parse: func(p *parser, d *ruleDecl, w word, _ bool) { d.Quiet = p.choice(w, offOn) == 1 }},
}

// The names of the words, for hints.
var (
	thresholdNames = namesOf(thresholds)
	outcomeNames   = namesOf(outcomes)
)

func namesOf(list []ruleWord) []string {
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].name
	}
	return names
}

// The values of words that accept a few words only.
var (
	offOn        = []string{"0", "1"}
	failWords    = []string{"rescue", "allow", "deny", "gateway"}
	failPolicies = []FailPolicy{FailRescue, FailAllow, FailDeny, FailGateway}
)

// The count of a leak rule, in hits per identity, above which W007 warns, and the
// approximate memory that a hit takes, in bytes.
const (
	maxQuietLeak = 100_000
	bytesPerHit  = 16
)

// noLimit has the findings for words whose value 0 means "no limit" in Koala's
// manual.
var noLimit = map[string]missingWord{
	"count": {errCountZero, "remove the rule if nothing limits it, or use [direct] to refuse every request"},
	"base":  {errBaseZero, "write base=N, the number of free hits per day, or use [count] if none is free"},
}

// usedBy reports whether rules of a method use the word.
func (rw *ruleWord) usedBy(m Method) bool { return rw.methods == nil || rw.methods.has(m) }

// parseWords reads one of the last two brackets, which ends at end. If the method is
// unknown, no word is reported as unused.
func (p *parser) parseWords(d *ruleDecl, table []ruleWord, ws words, end span, methodKnown bool) {
	for i := range table {
		rw := &table[i]
		w, given := ws.find(rw.name)
		used := rw.usedBy(d.Method)
		switch {
		case given:
			rw.parse(p, d, w, used)
			if methodKnown && rw.refused.has(d.Method) {
				p.reportf(w.name, errHeld, "remove it", "%s in a %s rule", w.name.text(), d.Method)
				continue
			}
			if methodKnown && !used && !w.name.empty() && !rw.ignored.has(d.Method) {
				p.reportf(w.name, warnNoUse, "remove it", "%s has no effect in a %s rule", w.name.text(), d.Method)
			}
		case used && rw.missing.code != nil:
			p.reportf(end, rw.missing.code, rw.missing.hint, "%s is missing", rw.name)
		}
	}
}

// numberWord returns the parse function of a word whose value is a number that may have
// one of the units.
func numberWord(units *units, least, most int64, field func(r *Rule) *int64) func(*parser, *ruleDecl, word, bool) {
	return func(p *parser, d *ruleDecl, w word, used bool) {
		if !used {
			p.quantity(w.name.text(), w.value, units, 0, mostInt64)
			return
		}
		*field(d.Rule) = p.limit(w, units, least, most)
	}
}

// limit is quantity, with a finding of its own for 0 where Koala sees no limit.
func (p *parser) limit(w word, units *units, least, most int64) int64 {
	if n, ok := parseInteger(w.value.text()); ok && n == 0 {
		if zero, special := noLimit[w.name.text()]; special {
			p.reportf(w.value, zero.code, zero.hint, "%s=0 would mean no limit", w.name.text())
			return 0
		}
	}
	return p.quantity(w.name.text(), w.value, units, least, most)
}

func parseCost(p *parser, d *ruleDecl, w word, used bool) {
	switch {
	case w.value.empty():
	case !w.value.isName():
		p.reportf(w.value, errName, wantName, "invalid parameter name %q", w.value.mention())
	case used:
		d.Cost, d.cost = w.value.text(), w.value
	}
}

// parseWait reads a span of time with up to three decimals.
func parseWait(p *parser, d *ruleDecl, w word, used bool) {
	text := w.value.text()
	if text == "" {
		return
	}
	number, factor := spanUnits.cut(text)
	ms, ok := parseMilliseconds(number)
	ms *= factor
	switch {
	case !ok:
		p.reportf(w.value, errNumber, "want seconds with at most three decimals, such as 1.5", "wait=%s is not a number of seconds", w.value.mention())
	case ms < 1 || ms > maxWait:
		p.reportf(w.value, errRange, "want 0.001 … 60 seconds", "wait=%s is out of range", w.value.mention())
	case used:
		d.Wait, d.wait = ms, w.value
	}
}

// parseMilliseconds reads a number of seconds with up to three decimals, as
// milliseconds.
func parseMilliseconds(text string) (int64, bool) {
	whole, decimals, found := strings.Cut(text, ".")
	if len(whole) == 0 || len(whole) > 9 || len(decimals) > 3 || found && decimals == "" || whole[0] == '-' || strings.HasPrefix(decimals, "-") {
		return 0, false
	}
	return parseInteger(whole + (decimals + "000")[:3])
}

// checkThresholds checks the thresholds of a rule against each other.
func (p *parser) checkThresholds(d *ruleDecl, ws words) {
	switch is := method.Of(d.Method); {
	case is.Refills:
		w, stated := ws.find("burst")
		if d.statesBurst = stated; !stated {
			w, _ = ws.find("count")
			d.Burst = d.Count
		}
		if d.Time > 0 && !d.isExact(&d.Limits) {
			message, hint := d.excess(&d.Limits)
			p.reportf(w.value, errBucket, hint, "%s", message)
		}
	case is.Slides && d.Count > maxQuietLeak:
		w, _ := ws.find("count")
		p.reportf(w.value, warnLargeLeak, "use a [token] rule, which keeps a single number",
			"one identity of this rule may keep %d hits and take %d MB", d.Count, (d.Count*bytesPerHit+999_999)/1_000_000)
	}
}

func init() {
	vocabulary.Publish(language)
}

// language returns the words of the language, for editors.
func language() vocabulary.Words {
	return vocabulary.Words{
		Sections: slices.Clone(sectionNames[dictsSection:]), Methods: slices.Clone(methodNames),
		Thresholds: wordsOf(thresholds), Outcomes: wordsOf(outcomes), Policies: slices.Clone(failWords),
		Sources: sourceNames(), Modifiers: slices.Clone(modifiers), Derived: slices.Clone(derivedNames),
		Tokens: vocabulary.Tokens{
			Words: slices.Clone(jwtWords), Places: slices.Clone(jwtPlaces[:]), Algorithms: slices.Concat(publicAlgorithms, secretAlgorithms), Outcomes: slices.Clone(jwtOutcomes[:]),
		},
	}
}

func wordsOf(list []ruleWord) []vocabulary.Word {
	words := make([]vocabulary.Word, len(list))
	for i := range list {
		words[i] = vocabulary.Word{Name: list[i].name, Required: list[i].missing.code != nil}
		for _, name := range methodNames {
			if m, _ := method.Named(name); list[i].methods.has(Method(m)) {
				words[i].Methods = append(words[i].Methods, name)
			}
		}
	}
	return words
}
