package rules

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"
)

// Parse reads the files of a rule set. The set is nil if at least one finding is an
// error. If Options.Pause has stopped it, there are neither a set nor findings.
func Parse(sources []Source, o Options) (*Set, Findings) {
	p := &parser{pauses: pauses{pause: o.Pause}, options: o, declared: make(map[string]span)}
	for i := range sources {
		p.file(&sources[i])
	}
	set := p.check(sources)
	if p.stopped {
		return nil, nil
	}
	findings := p.found.sorted(sources)
	if findings.HasErrors() {
		return nil, findings
	}
	set.parsed = true
	return set, findings
}

// check builds a set from the declarations and checks lines against each other. The
// set is usable only if no finding is an error.
func (p *parser) check(sources []Source) *Set {
	set := &Set{Sources: sources, routes: p.routes, Timezone: p.timezone, Results: make(map[int]*Result), Dicts: make(map[string]*Dict), Tables: make(map[string]*Table), dictAt: make(map[place]*Dict), tableAt: make(map[place]*Table), keysAt: make(map[place][]byte)}
	set.Zone = p.zone()
	for _, check := range []func(*Set){
		p.checkSections, p.checkDicts, p.checkTables, p.checkResults, p.checkRules, p.checkRuleNames, p.checkInstants, p.checkParams, p.checkTokens, p.checkForwards,
	} {
		if check(set); !p.at(0) {
			return nil
		}
	}
	if p.found.count[Error] > 0 {
		return set
	}
	set.Hash = hash(set, &p.pauses)
	set.index = newIndex(set.Rules, p.numbers, set.Params, &p.pauses)
	if p.stopped {
		return nil
	}
	p.warn(set)
	return set
}

// checkSections checks that the required sections exist.
func (p *parser) checkSections(*Set) {
	at := span{}
	if p.last != nil {
		at = whole(p.last).end()
	}
	for _, s := range []section{rulesSection, resultSection} {
		if !p.seen[s] && !p.lost {
			p.reportf(at, errSectionMissing, "add it: a rule set needs [rules] and [result]", "missing section [%s]", sectionNames[s])
		}
	}
	if p.seen[rulesSection] && len(p.rules) == 0 && !p.options.AllowEmpty && p.found.count[Error] == 0 {
		p.reportf(at, errNoRules, "add a rule: without rules everything is allowed, which the service refuses to load by default", "the rule set has no rules")
	}
}

// zone returns the zone of the set's days: the zone of the files, or else the zone of the
// service.
func (p *parser) zone() *time.Location {
	name := p.timezone
	if name == "" {
		name = p.options.Timezone
	}
	if name == "" {
		name = DefaultTimezone
	}
	zone, err := loadZone(name)
	if err != nil {
		if p.timezone == "" {
			p.reportf(span{}, errZone, "want an IANA name such as Asia/Shanghai, Europe/Berlin or UTC", "the service's timezone %q is unknown", name)
		}
		return time.UTC
	}
	return zone
}

// checkDicts loads the word lists and connects the conditions to them.
func (p *parser) checkDicts(set *Set) {
	declared := make(map[string]*dictDecl, len(p.dicts))
	for _, d := range p.dicts {
		declared[d.name.text()] = d
		if dict := p.openDict(d); dict != nil {
			set.Dicts[d.name.text()], set.dictAt[place{d.name.line.file, d.path.text()}] = dict, dict
		}
	}
	names := slices.Sorted(maps.Keys(declared))
	for _, r := range p.eachRule() {
		for _, l := range r.listed {
			d := declared[l.name.text()]
			if d == nil {
				if !p.found.skips(errDictUnknown) {
					p.found.add(errDictUnknown, l.name, Finding{
						Message: fmt.Sprintf("unknown word list %q", l.name.mention()), Hint: "declare it in [dicts]", Suggestion: suggest(l.name.text(), names),
					})
				}
				continue
			}
			d.used = true
			if dict := set.Dicts[l.name.text()]; dict != nil && !slices.Contains(l.condition.dicts, dict) { // two names may have one list
				l.condition.dicts = append(l.condition.dicts, dict)
			}
		}
	}
}

func (p *parser) openDict(d *dictDecl) *Dict {
	if p.options.OpenDict == nil {
		p.reportf(d.path, errDictRead, "word lists are not available here", "cannot read the word list %s from %q", d.name.text(), d.path.mention())
		return nil
	}
	dict, err := p.options.OpenDict(d.name.line.file, d.path.text())
	if err != nil {
		p.reportf(d.path, errDictRead, fileHint(d.path, err), "cannot read the word list %s from %q: %v", d.name.text(), d.path.mention(), err)
		return nil
	}
	p.warnDictMistakes(d, dict)
	return dict
}

// fileHint returns the hint about a file that cannot be read.
func fileHint(path span, err error) string {
	switch {
	case strings.HasPrefix(path.text(), `"`):
		return "write the path without quotes"
	case strings.Contains(path.text(), " #"):
		return "move the comment to a line of its own"
	case errors.Is(err, fs.ErrNotExist):
		return "correct the path, which is relative to the folder of this file or to --dict-root"
	}
	return "correct the file: want a text file that the service may read"
}

func (p *parser) checkResults(set *Set) {
	for _, d := range p.results {
		set.Results[d.Number] = d.Result
	}
	if !p.seen[resultSection] {
		return
	}
	for n, when := range []string{"no rule matches", "rules match and none decides"} {
		if set.Results[n] == nil {
			at := whole(p.last).end()
			if len(p.results) > 0 {
				at = p.results[len(p.results)-1].number
			}
			p.reportf(at, errEntryMissing, "add it: it answers when "+when, "[result] has no entry %d", n)
		}
	}
}

// checkRules checks the references of the rules, and that their numbers are unique.
func (p *parser) checkRules(set *Set) {
	p.numbers, set.Rules = make(map[int64]int32, len(p.rules)), make([]*Rule, len(p.rules))
	for i, d := range p.eachRule() {
		set.Rules[i] = d.Rule
		set.isQueue = set.isQueue || d.Wait > 0
		if d.Return > 0 {
			if first, repeated := p.numbers[d.Return]; repeated {
				p.reportf(d.returns, errReturnTwice, "give it another number, because counters and reports are kept by number", "return=%d is already used at %s", d.Return, p.rules[first].returns)
			} else {
				p.numbers[d.Return] = int32(i)
			}
		}
		if d.result.line == nil || !hasIntegerForm(d.result.text()) || !p.seen[resultSection] {
			continue // this has been reported
		}
		if d.Result = set.Results[int(d.resultNo)]; d.Result == nil {
			p.reportf(d.result, errNoResult, "add the entry, or choose another", "[result] has no entry %d", d.resultNo)
		}
	}
}

// checkRuleNames checks that the names of the rules are unique. Clients, logs and tests
// name a rule without a name by its number or by r and its number, so no other rule may
// have that name.
func (p *parser) checkRuleNames(*Set) {
	names := make(map[string]*ruleDecl)
	for _, d := range p.eachRule() {
		if d.Name == "" {
			continue
		}
		number, _ := parseInteger(strings.TrimPrefix(d.Name, "r"))
		i, isNumber := p.numbers[number]
		first := names[d.Name]
		switch {
		case first != nil:
			p.reportf(d.name, errRuleName, "give it another name", "name=%s is already used at %s", d.Name, first.name)
		case isNumber && p.rules[i] != d:
			p.reportf(d.name, errRuleName, "give it another name", "name=%s could be taken for rule %d at %s", d.Name, number, p.rules[i].returns)
		default:
			names[d.Name] = d
		}
	}
}

func (p *parser) checkParams(set *Set) {
	headers := make(map[string]*paramDecl)
	for _, d := range p.params {
		set.Params = append(set.Params, d.ParamDecl)
		if d.GatewayHeader == "" {
			continue
		}
		if first := headers[d.GatewayHeader]; first != nil {
			p.reportf(d.name, errGatewayNames, "rename one of them: the header has - for each of _ . : -", "%s and %s have the same gateway header %s", d.Name, first.Name, d.GatewayHeader)
			continue
		}
		headers[d.GatewayHeader] = d
	}
}

// checkForwards checks the number of the forwarded headers.
func (p *parser) checkForwards(set *Set) {
	size := 0
	for i, d := range p.forwards {
		size += len(d.Header)
		switch {
		case i >= maxForwards:
			p.reportf(d.header, errForwards, fmt.Sprintf("want at most %d lines in [forward]", maxForwards), "too many headers are forwarded")
			return
		case size > maxForwardNames:
			p.reportf(d.header, errForwards, fmt.Sprintf("want names of at most %d bytes together", maxForwardNames), "the names of the forwarded headers are too long")
			return
		}
		set.Forwards = append(set.Forwards, d.Forward)
	}
}

// hash returns the hash of a set's content: the texts of its files, each after its
// length, and the hashes of its word lists, tables and files of keys.
func hash(set *Set, p *pauses) string {
	h := sha256.New()
	var length [8]byte
	for _, s := range set.Sources {
		binary.BigEndian.PutUint64(length[:], uint64(len(s.Text)))
		h.Write(length[:])
		for piece := range slices.Chunk(s.Text, pieceSize) {
			if h.Write(piece); !p.at(0) {
				return ""
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set.Dicts)) {
		h.Write(set.Dicts[name].hash[:])
	}
	for _, name := range slices.Sorted(maps.Keys(set.Tables)) {
		h.Write(set.Tables[name].hash[:])
	}
	for _, token := range set.Tokens {
		h.Write(token.keysHash)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// checkInstants sets the times at which rules begin and end, and the zone of the dates that
// conditions compare with the time.
func (p *parser) checkInstants(set *Set) {
	for _, d := range p.eachRule() {
		if d.since.at.line != nil {
			d.Since = inZone(d.since.wall, set.Zone).UnixMilli()
		}
		if d.until.at.line != nil {
			d.Until = inZone(d.until.wall, set.Zone).UnixMilli()
		}
		for _, c := range d.Conditions {
			c.zone = set.Zone
			set.timed = set.timed || c.isTimed()
		}
		set.timed = set.timed || d.isTimed()
		if d.Since != 0 && d.Until != 0 && d.Until <= d.Since {
			p.reportf(d.until.at, errNeverActive, "want a later time; until is the first instant at which the rule no longer matches",
				"until=%s is not after since=%s", d.until.at.text(), d.since.at.text())
		}
	}
}

// warnDictMistakes reports the entries of a list that look like mistakes.
func (p *parser) warnDictMistakes(d *dictDecl, list *Dict) {
	m := &list.mistakes
	if m.line == 0 {
		return
	}
	first := ""
	if m.more > 0 {
		first = fmt.Sprintf(" (the first of %d suspicious entries)", m.more+1)
	}
	p.reportf(d.path, warnDictEntry, m.hint, "the entry %q at %s:%d is read as a word%s", m.entry, list.name, m.line, first)
}
