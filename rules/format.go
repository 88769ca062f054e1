package rules

import "strings"

// Format returns a rule file in its canonical layout: at most one blank line in a
// row, one before each section, adjacent statements in columns, and current
// spellings instead of deprecated ones. Statements, their order and their comments do
// not change. UTF-8 without a byte order mark and Unix line ends are part of the
// layout.
//
// A file with an error is returned unchanged, with findings that say why. The findings
// are about single lines: references are not checked, so that a file can be formatted
// without its word lists and the other files of its set.
func Format(source Source) ([]byte, Findings) { return FormatPausing(source, nil) }

// FormatPausing is Format with pauses between pieces of work, as by Options.Pause. A file
// whose formatting has stopped is returned unchanged, without findings. For koalagate's
// own programs, may change.
func FormatPausing(source Source, pause func() bool) ([]byte, Findings) {
	f := &formatter{fileParser: &fileParser{parser: &parser{pauses: pauses{pause: pause}, declared: make(map[string]span)}}}
	f.lines(&source, f.line)
	if f.stopped {
		return source.Text, nil
	}
	findings := f.found.sorted([]Source{source})
	if findings.HasErrors() {
		return source.Text, findings
	}
	text := layOut(f.read(), &f.pauses)
	if f.stopped {
		return source.Text, nil
	}
	return []byte(text), findings
}

// formatter parses a file and stores its lines.
type formatter struct {
	*fileParser
	kept []keptLine
}

// keptLine is a line of the file with its section. A head belongs to the section that
// it begins.
type keptLine struct {
	statement span
	section   section
}

func (f *formatter) line(l *line) {
	f.fileParser.line(l)
	f.kept = append(f.kept, keptLine{whole(l).trim(), f.section})
}

// read returns the lines of a file without errors in the form that layOut takes.
func (f *formatter) read() []laidLine {
	laid := make([]laidLine, len(f.kept))
	rules := f.rules
	for i, k := range f.kept {
		if !f.at(i) {
			return nil
		}
		l := &laid[i]
		l.original = k.statement.text()
		switch {
		case l.original == "":
			l.kind = blankLine
			continue
		case l.original[0] == '#':
			l.kind = commentLine
			continue
		}
		statement, comment := k.statement, ""
		if k.section.allowsTrailingComments() {
			statement = k.statement.uncomment()
			comment = k.statement.tail(statement.to - k.statement.from).trim().text()
		}
		switch {
		case l.original[0] == '[': // any other line with it would be an error
			l.kind, l.cells = headLine, []string{"[" + sectionNames[k.section] + "]"}
		case k.section == rulesSection:
			l.cells = f.ruleCells(rules[0], statement)
			rules = rules[1:]
		default:
			l.cells = cellsOf(k.section, statement)
		}
		if comment != "" {
			l.cells = append(l.cells, comment)
		}
	}
	return laid
}

// ruleCells returns the brackets of a rule.
func (f *formatter) ruleCells(d *ruleDecl, s span) []string {
	body, _ := f.ruleBody(s) // its findings have been reported before
	brackets, _ := f.brackets(nil, body)
	conditions := make([]string, len(d.Conditions))
	for i, c := range d.Conditions {
		conditions[i] = c.String()
	}
	return []string{
		ruleKeyword + " : [" + d.Method.String() + "]",
		"[" + strings.Join(conditions, "; ") + "]",
		"[" + assignments(brackets[2]) + "]",
		"[" + assignments(brackets[3]) + "]",
	}
}

// assignments returns `name=value; name=value` without superfluous blanks and
// semicolons.
func assignments(s span) string {
	var list []string
	for _, piece := range s.statements(nil) {
		if !piece.empty() {
			name, value, _ := piece.cut('=')
			text := value.text()
			if isVarying(text) {
				text = joined(value.fields())
			}
			list = append(list, name.text()+"="+text)
		}
	}
	return strings.Join(list, "; ")
}

// cellsOf returns the columns of a statement of any section except [rules].
func cellsOf(in section, s span) []string {
	switch in {
	case paramsSection, forwardSection:
		colon := s.colons()[0]
		return []string{s.slice(0, colon).trim().text(), ": " + joined(s.tail(colon+1).sourceFields())}
	case routesSection:
		colons := s.colons()
		colon := colons[len(colons)-1]
		words := s.slice(0, colon).fields()
		return []string{words[0].text(), words[1].text(), strings.TrimSpace(": " + assignments(s.tail(colon+1).trim()))}
	case resultSection:
		number, object, _ := s.cut(':')
		return []string{number.text(), ": " + spaceJSON(object.text())}
	}
	name, value, _ := s.cut(':')
	if keys, words, _ := value.cut(';'); in == tokensSection {
		return []string{name.text(), ": " + strings.TrimSuffix(joined(keys.fields())+"; "+assignments(words), "; ")}
	}
	return []string{name.text(), ": " + value.text()}
}

// joined returns words with one blank between them.
func joined(words []span) string {
	texts := make([]string, len(words))
	for i, word := range words {
		texts[i] = word.text()
	}
	return strings.Join(texts, " ")
}

// spaceJSON returns a JSON text with a blank after each comma and nowhere else.
func spaceJSON(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			end := closingQuote(text, i)
			b.WriteString(text[i : end+1])
			i = end
		case ',':
			b.WriteString(", ")
		case ' ', '\t', '\r':
		default:
			b.WriteByte(text[i])
		}
	}
	return b.String()
}
