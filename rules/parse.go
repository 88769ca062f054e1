package rules

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/koalagate/koalagate/internal/vocabulary"
)

const byteOrderMark = "\ufeff"

// maxLine is the maximum length of a line of a rule file, in bytes.
const maxLine = 128 << 10

// section is a part of a rule file.
type section uint8

const (
	noSection section = iota
	dictsSection
	tablesSection
	tokensSection
	rulesSection
	resultSection
	paramsSection
	routesSection
	forwardSection
	settingsSection
	endSection
	unknownSection // its lines are skipped
)

var sectionNames = [...]string{
	dictsSection: "dicts", tablesSection: "tables", tokensSection: "tokens", rulesSection: "rules", resultSection: "result",
	paramsSection: "params", routesSection: "routes", forwardSection: "forward", settingsSection: "settings", endSection: "end",
}

// allowsTrailingComments reports whether a `#` after a statement begins a comment.
func (s section) allowsTrailingComments() bool {
	return s >= paramsSection && s <= endSection || s == tokensSection
}

// parser turns the files of a rule set into declarations. The parse files check
// each line by itself, check.go checks lines against each other.
type parser struct {
	pauses
	options Options
	found   collector
	seen    [unknownSection]bool // the sections that any file has
	last    *line                // the last line of the last file

	dicts    []*dictDecl
	tables   []*tableDecl
	tokens   []*jwtDecl
	rules    []*ruleDecl
	numbers  map[int64]int32 // indexes of rules, by `return`
	results  []*resultDecl
	params   []*paramDecl
	routes   routeTree
	forwards []*forwardDecl
	timezone string
	lost     bool            // some lines were unreadable, so a missing section may be among them
	declared map[string]span // unique declarations, by kind and name
}

// reportf adds a finding. The hint says what to do about it; the format and its
// arguments say what is wrong.
func (p *parser) reportf(at span, code *vocabulary.Code, hint, format string, args ...any) {
	if !p.found.skips(code) {
		p.found.add(code, at, Finding{Message: fmt.Sprintf(format, args...), Hint: hint})
	}
}

// unknown reports a word that is not in want, and returns the word of want that was
// probably meant, "" if none is similar.
func (p *parser) unknown(at span, code *vocabulary.Code, what string, want []string) string {
	meant := suggest(at.text(), want)
	p.found.add(code, at, Finding{
		Message: fmt.Sprintf("unknown %s %q", what, at.mention()), Hint: "want " + oneOf(want), Suggestion: meant,
	})
	return meant
}

// declare records a declaration that must be unique. It returns an earlier declaration, and
// whether there is one.
func (p *parser) declare(kind, name string, at span) (first span, repeated bool) {
	key := kind + " " + name
	if earlier, ok := p.declared[key]; ok {
		return earlier, true
	}
	p.declared[key] = at
	return span{}, false
}

// file reads one file.
func (p *parser) file(source *Source) {
	f := &fileParser{parser: p}
	if p.lines(source, f.line) && p.options.RequireEnd && f.section != endSection {
		p.reportf(whole(p.last).end(), errEndMissing, "add [end] as the last line; without it a truncated file goes unnoticed", "the file does not end with [end]")
	}
}

// eachRule returns the rules that have been read, with a pause after each. It ends early if
// parsing must stop.
func (p *parser) eachRule() iter.Seq2[int, *ruleDecl] {
	return func(yield func(int, *ruleDecl) bool) {
		for i, d := range p.rules {
			if !yield(i, d) || !p.at(i) {
				return
			}
		}
	}
}

// lines calls visit for each line of a file. It returns false if the encoding of
// the whole file is wrong, or parsing must stop.
func (p *parser) lines(source *Source, visit func(*line)) bool {
	text := strings.TrimPrefix(p.copied(source.Text), byteOrderMark)
	p.last = &line{file: source.Name, number: 1}
	if strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xfe\xff") {
		p.reportf(whole(p.last), errEncoding, "save it as UTF-8", "the file is UTF-16")
		p.lost = true
		return false
	}
	for number := 1; text != ""; number++ {
		var l string
		l, text, _ = strings.Cut(text, "\n")
		p.last = &line{source.Name, number, strings.TrimSuffix(l, "\r")}
		visit(p.last)
		if !p.at(number) {
			return false
		}
	}
	return true
}

// fileParser is the state of the parser within a file.
type fileParser struct {
	*parser
	section section
	seen    [unknownSection]bool
	garbled bool // something that is not UTF-8 was reported
	binary  bool // a NUL byte was reported
	stray   bool // a statement outside the sections was reported
}

func (p *fileParser) line(l *line) {
	// A file that is not UTF-8 and has NUL bytes is not text, so further
	// findings would not help.
	if p.garbled && p.binary {
		return
	}
	if !p.readable(l) {
		p.lost = true
		return
	}
	statement := whole(l).trim()
	if statement.empty() || statement.text()[0] == '#' {
		return
	}
	if statement.text()[0] == '[' && p.head(statement) {
		return
	}
	if p.section.allowsTrailingComments() {
		statement = statement.uncomment()
	}
	p.statement(statement)
}

// statement reads a line that is neither blank, nor a comment, nor a section head.
func (p *fileParser) statement(statement span) {
	if s := unclosedHead(statement); s != unknownSection {
		p.reportf(statement, errStatement, fmt.Sprintf("write [%s]", sectionNames[s]), "the section head has no ]")
		p.enter(s, statement.tail(1))
		return
	}
	if home := homeOf(statement); home != noSection && home != p.section && p.section <= settingsSection && p.section != noSection {
		p.reportf(statement, errStatement, fmt.Sprintf("move it to [%s]", sectionNames[home]), "a line of [%s] is in [%s]", sectionNames[home], sectionNames[p.section])
		return
	}
	switch p.section {
	case dictsSection:
		p.parseDict(statement)
	case tablesSection:
		p.parseTable(statement)
	case tokensSection:
		p.parseToken(statement)
	case rulesSection:
		p.parseRule(statement)
	case resultSection:
		p.parseResult(statement)
	case paramsSection:
		p.parseParam(statement)
	case routesSection:
		p.parseRoute(statement)
	case forwardSection:
		p.parseForward(statement)
	case settingsSection:
		p.parseSetting(statement)
	case endSection:
		p.outside(statement, errAfterEnd, "remove it, or move [end] to the last line of the file", "text after [end]")
	case noSection:
		if strings.IndexByte(statement.text(), '\r') >= 0 {
			p.lost = true
			p.outside(statement, errNoSection, "save it with Unix or Windows line ends", "the lines of this file end in a bare carriage return, so the file is one line")
			return
		}
		p.outside(statement, errNoSection, "move it to [dicts], [tables], [tokens], [rules], [result], [params], [routes], [forward] or [settings]", "text before the first section")
	}
}

// unclosedHead returns the section whose head the statement is, but for its bracket, or
// unknownSection.
func unclosedHead(statement span) section {
	name, isOpen := strings.CutPrefix(statement.text(), "[")
	if !isOpen {
		return unknownSection
	}
	return sectionNamed(strings.TrimSpace(name))
}

// homeOf returns the section that a statement belongs to by its form, if it is a
// rule or an entry of [result], which cannot be confused with anything else.
func homeOf(statement span) section {
	before, after, found := statement.cut(':')
	switch {
	case found && before.text() == ruleKeyword && strings.HasPrefix(after.text(), "["):
		return rulesSection
	case found && hasIntegerForm(before.text()) && strings.HasPrefix(after.text(), "{"):
		return resultSection
	}
	return noSection
}

// outside reports the first statement of a file that is in no section.
func (p *fileParser) outside(statement span, code *vocabulary.Code, hint, message string) {
	if !p.stray {
		p.reportf(statement, code, hint, "%s", message)
	}
	p.stray = true
}

// readable reports whether a line is text that can be parsed.
func (p *fileParser) readable(l *line) bool {
	if len(l.text) > maxLine {
		at := span{&line{l.file, l.number, l.text[:shownAfter]}, 0, 0}
		p.reportf(at, errLongLine, fmt.Sprintf("want at most %d bytes; move long lists to a word list", maxLine), "the line has %d bytes", len(l.text))
		return false
	}
	if i := strings.IndexByte(l.text, 0); i >= 0 {
		if !p.binary {
			p.reportf(whole(l).slice(i, i+1), errNUL, "want a text file in UTF-8", "the line contains a NUL byte")
		}
		p.binary = true
		return false
	}
	if !utf8.ValidString(l.text) {
		if i := strings.IndexRune(l.text, utf8.RuneError); !p.garbled {
			p.reportf(whole(l).slice(i, i), errEncoding, "save the file as UTF-8", "the line is not UTF-8 (GBK?)")
		}
		p.garbled = true
		return false
	}
	return true
}

// head reads a section head and reports whether the line is meant as one. A line
// with several brackets is not: it is a rule without its `rule :`.
func (p *fileParser) head(statement span) bool {
	text := statement.text()
	end := strings.IndexByte(text, ']')
	if end < 0 || strings.Contains(text[end:], "[") {
		return false
	}
	name := statement.slice(1, end).trim()
	s := sectionNamed(name.text())
	if s == unknownSection && p.section == rulesSection && end+1 < len(text) {
		return false
	}
	rest := statement.tail(end + 1)
	if s.allowsTrailingComments() {
		rest = rest.uncomment()
	}
	if rest = rest.trim(); !rest.empty() {
		p.reportf(rest, errHead, "move it to a line of its own", "text after a section head")
	}
	p.enter(s, name)
	return true
}

func sectionNamed(name string) section {
	i := slices.IndexFunc(sectionNames[:], func(s string) bool { return strings.EqualFold(s, name) })
	if i <= int(noSection) {
		return unknownSection
	}
	return section(i)
}

// enter begins a section.
func (p *fileParser) enter(s section, name span) {
	if p.section == endSection {
		p.outside(name, errAfterEnd, "remove it, or move [end] to the last line of the file", "text after [end]")
		return
	}
	p.section = s
	if s == unknownSection {
		p.unknown(name, errSection, "section", sectionNames[dictsSection:])
		p.lost = true
		// The lines are read as lines of the section that was probably meant, so
		// that one run finds their mistakes, too.
		if s = sectionNamed(suggest(name.text(), sectionNames[dictsSection:])); s != unknownSection {
			p.section, p.parser.seen[s] = s, true
		}
		return
	}
	if p.seen[s] {
		p.reportf(name, errSectionTwice, "move its lines to the first one", "the section [%s] occurs twice in this file", sectionNames[s])
	}
	p.seen[s], p.parser.seen[s] = true, true
}
