package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Position is a place in a rule file. Line and Column count from 1, Column in
// characters.
type Position struct {
	File         string
	Line, Column int
}

// String is `rules.conf:12:9`.
func (p Position) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.File == "":
		return fmt.Sprintf("%d:%d", p.Line, p.Column)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Severity says whether a finding keeps a rule set from taking effect.
type Severity uint8

// The severities.
const (
	Error   Severity = iota // the rule set is refused
	Warning                 // it is not
)

// String is the severity's word in a finding.
func (s Severity) String() string {
	if s == Error {
		return "error"
	}
	return "warning"
}

// Finding is something that a rule file wants mended.
type Finding struct {
	Code       string // E012; see Codes
	Severity   Severity
	Position   Position
	Message    string // what is wrong
	Hint       string // what to do about it
	Suggestion string // the word that was probably meant; "" if none is near
	Line       string // the line of the file
}

// Error is the finding in one line:
//
//	rules.conf:12:9: error E012: unknown method "cuont"; want direct, count, base, leak or token
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

// Findings are all that was found in the files of a rule set, sorted by file,
// in the order in which the files were given, and position.
type Findings []Finding

// HasErrors tells whether the rule set is refused.
func (fs Findings) HasErrors() bool {
	return slices.ContainsFunc(fs, func(f Finding) bool { return f.Severity == Error })
}

// Error is every finding, one a line.
func (fs Findings) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// maxFindings bounds what is shown of each severity: beyond it nobody reads,
// and a file of the wrong kind would make one of every line.
const maxFindings = 500

// collector gathers findings.
type collector struct {
	list  Findings
	count [2]int // by severity
}

// add takes a finding at a piece of a line.
func (c *collector) add(code *Code, at span, f Finding) {
	if code.ID[0] == 'W' {
		f.Severity = Warning
	}
	if c.count[f.Severity]++; c.count[f.Severity] > maxFindings {
		return
	}
	f.Code, f.Message, f.Hint, f.Suggestion = code.ID, Printable(f.Message), Printable(f.Hint), Printable(f.Suggestion)
	if at.line != nil {
		f.Position, f.Line = at.position(), at.line.text
	}
	c.list = append(c.list, f)
}

// Printable is text without what a terminal would obey: messages repeat what
// files and requests hold. Each such character becomes U+FFFD.
func Printable(text string) string {
	return strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return unicode.ReplacementChar
		}
		return c
	}, text)
}

// sorted returns the findings in the order of the files, and one that says
// how many more there are.
func (c *collector) sorted(sources []Source) Findings {
	order := make(map[string]int, len(sources))
	for i := range sources {
		order[sources[i].Name] = i
	}
	slices.SortStableFunc(c.list, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(order[a.Position.File], order[b.Position.File]),
			cmp.Compare(a.Position.Line, b.Position.Line), cmp.Compare(a.Position.Column, b.Position.Column))
	})
	for severity, code := range [...]*Code{Error: errMore, Warning: warnMore} {
		if more := c.count[severity] - maxFindings; more > 0 {
			last := c.list[len(c.list)-1]
			c.list = append(c.list, Finding{
				Code: code.ID, Severity: Severity(severity), Position: last.Position, Line: last.Line,
				Message: fmt.Sprintf("%d more %ss are not shown", more, Severity(severity)), Hint: "mend these first",
			})
		}
	}
	return c.list
}
