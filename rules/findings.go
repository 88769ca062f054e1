package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/width"

	"github.com/koalagate/koalagate/internal/printable"
	"github.com/koalagate/koalagate/internal/vocabulary"
)

// Severity is the effect of a finding: whether the rule set can become active.
type Severity uint8

// The severities.
const (
	Error   Severity = iota // the rule set is rejected
	Warning                 // the rule set is accepted
)

// String returns the word for the severity in a finding.
func (s Severity) String() string {
	if s == Error {
		return "error"
	}
	return "warning"
}

// Finding is an error or a warning about a rule file.
type Finding struct {
	Code       string // E012; docs/findings.md has all
	Severity   Severity
	Position   Position
	Message    string // what is wrong
	Hint       string // what to do about it
	Suggestion string // the word that was probably meant; "" if none is similar
	Line       string // the line of the file
}

// Error returns the finding in one line:
//
//	rules.conf:12:9: error E012: unknown method "cuont"; want direct, count, base, leak, token or hold
func (f Finding) Error() string {
	var b strings.Builder
	if at := f.Position.String(); at != "" {
		b.WriteString(at + ": ")
	}
	fmt.Fprintf(&b, "%s %s: %s", f.Severity, f.Code, f.Message)
	if f.Hint != "" {
		b.WriteString("; " + f.Hint)
	}
	return b.String()
}

// Findings are the findings about the files of a rule set, in the order of the files
// and sorted by position.
type Findings []Finding

// HasErrors reports whether the rule set is rejected.
func (fs Findings) HasErrors() bool {
	return slices.ContainsFunc(fs, func(f Finding) bool { return f.Severity == Error })
}

// Error returns all findings, one per line.
func (fs Findings) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// maxFindings is the number of findings that are kept of each severity: a file of the
// wrong type would have one for every line.
const maxFindings = 500

// collector collects findings.
type collector struct {
	list  Findings
	count [2]int           // by severity
	shown map[*line]string // what findings show of the lines that have any
}

// skips reports whether a finding is only counted, because there are too many, and counts
// it then.
func (c *collector) skips(code *vocabulary.Code) bool {
	severity := severityOf(code)
	if c.count[severity] < maxFindings {
		return false
	}
	c.count[severity]++
	return true
}

// add adds a finding about a span.
func (c *collector) add(code *vocabulary.Code, at span, f Finding) {
	f.Severity = severityOf(code)
	if c.skips(code) {
		return
	}
	c.count[f.Severity]++
	f.Code, f.Message, f.Hint, f.Suggestion = code.ID, printable.Text(f.Message), printable.Text(f.Hint), printable.Text(f.Suggestion)
	if at.line != nil {
		f.Position, f.Line = at.position(), c.show(at.line)
	}
	c.list = append(c.list, f)
}

// show returns the text of a line in findings. All findings about a line share it, because a line
// may be long and have many.
func (c *collector) show(l *line) string {
	if shown, known := c.shown[l]; known {
		return shown
	}
	shown := withoutUser(l.text)
	if c.shown == nil {
		c.shown = make(map[*line]string)
	}
	c.shown[l] = shown
	return shown
}

// sorted returns the findings in the order of the files, those in tables last, and for each
// severity one more with the number of findings that are not shown.
func (c *collector) sorted(sources []Source) Findings {
	order := make(map[string]int, len(sources))
	for i := range sources {
		order[sources[i].Name] = i
	}
	place := func(f *Finding) int {
		if n, ok := order[f.Position.File]; ok || f.Position.File == "" {
			return n
		}
		return len(sources)
	}
	slices.SortStableFunc(c.list, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(place(&a), place(&b)), cmp.Compare(a.Position.File, b.Position.File),
			cmp.Compare(a.Position.Line, b.Position.Line), cmp.Compare(a.Position.Column, b.Position.Column))
	})
	for severity, code := range [...]*vocabulary.Code{Error: errMore, Warning: warnMore} {
		if more := c.count[severity] - maxFindings; more > 0 {
			last := c.list[len(c.list)-1]
			c.list = append(c.list, Finding{
				Code: code.ID, Severity: Severity(severity), Position: last.Position, Line: last.Line,
				Message: fmt.Sprintf("%ss that are not shown: %d", Severity(severity), more), Hint: "fix these first",
			})
		}
	}
	return c.list
}

// The part of a long line that is shown around the position of a finding, in
// characters. A line that is not longer than both together is shown whole.
const (
	shownBefore = 60
	shownAfter  = 60
)

// Text returns the finding for terminals: the line of Error, the line of the file,
// and a caret under the position.
//
//	rules.conf:2:9: error E012: unknown method "cuont"; want direct, count, base, leak, token or hold
//	  rule : [cuont] [act=ask; uid=+] [time=60; count=1] [result=2; return=1]
//	          ^ did you mean "count"?
func (f Finding) Text() string {
	if f.Position.Line == 0 || f.Line == "" && f.Position.Column != 1 { // the line is unknown
		return f.Error()
	}
	shown, indent := f.window()
	var b strings.Builder
	b.WriteString(f.Error() + "\n  " + shown + "\n  " + indent + "^")
	if f.Suggestion != "" {
		b.WriteString(` did you mean "` + f.Suggestion + `"?`)
	}
	return b.String()
}

// window returns the part of the line around the position, and the indentation that
// puts a caret under the position.
func (f Finding) window() (shown, indent string) {
	characters := []rune(f.Line)
	at := min(max(f.Position.Column-1, 0), len(characters))
	from, to := 0, len(characters)
	if len(characters) > shownBefore+shownAfter {
		from = max(0, min(at-shownBefore, to-shownBefore-shownAfter))
		to = min(to, from+shownBefore+shownAfter)
	}
	var line, blanks strings.Builder
	if from > 0 {
		line.WriteString("…")
		blanks.WriteByte(' ')
	}
	for i := from; i < to; i++ {
		c := characters[i]
		if !unicode.IsPrint(c) && c != '\t' {
			c = unicode.ReplacementChar // may be a control character
		}
		line.WriteRune(c)
		if i < at {
			blanks.WriteString(blankFor(c))
		}
	}
	if to < len(characters) {
		line.WriteString("…")
	}
	return line.String(), blanks.String()
}

// blankFor returns blanks of the width of a character in a terminal.
func blankFor(c rune) string {
	if c == '\t' {
		return "\t"
	}
	switch width.LookupRune(c).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return "  "
	}
	return " "
}
