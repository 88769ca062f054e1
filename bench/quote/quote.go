// Package quote copies figures of the newest report into the pages that quote them.
//
// quotes.txt lists the statements with figures of each page. A figure is in braces:
// {FIGURE} is the median of a figure that the report compares with goals, or has without one;
// {FIGURE; least} and {FIGURE; most} are its bounds; {SECTION | ROW | COLUMN} is a cell of
// the report. ~2 before the end rounds to two digits. Any space of a statement may be
// the end of a line in the page. A page has tables of the report between the lines
// <!-- report: SECTION --> and <!-- /report -->, which has the tables of the section.
package quote

import (
	_ "embed" // for the statements
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/koalagate/koalagate/bench/report"
)

//go:embed quotes.txt
var quotes string

// Page is a page that quotes the report.
type Page struct {
	Path       string // from the root of the module
	statements []*statement
}

// statement is a text with figures.
type statement struct {
	text    string
	pattern *regexp.Regexp
	figures []figure
}

// figure is where a quoted figure stands in the report.
type figure struct {
	section, row, column string
	bound                string // "least", "most", or "" for the median
	digits               int    // significant digits to round to; 0 rounds nothing
}

// Pages returns the pages that quote the report.
func Pages() ([]*Page, error) { return parse(quotes) }

// parse reads lines with the path of a page, each followed by the statements of the page,
// which are indented.
func parse(text string) (pages []*Page, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		body := strings.TrimSpace(line)
		switch {
		case body == "":
		case body == line:
			pages = append(pages, &Page{Path: body})
		case pages == nil:
			return nil, fmt.Errorf("the statement %q has no page", body)
		default:
			s, err := parseStatement(body)
			if err != nil {
				return nil, err
			}
			last := pages[len(pages)-1]
			last.statements = append(last.statements, s)
		}
	}
	return pages, nil
}

// number is a figure in a page, with separators of thousands or without.
const number = `(-?\d[\d,]*(?:\.\d+)?)`

var braces = regexp.MustCompile(`\{([^{}]+)\}`)

func parseStatement(text string) (*statement, error) {
	s := &statement{text: text}
	var pattern strings.Builder
	plain := func(part string) {
		words := regexp.MustCompile(`\s+`).Split(part, -1)
		for i := range words {
			words[i] = regexp.QuoteMeta(words[i])
		}
		pattern.WriteString(strings.Join(words, `\s+`))
	}
	end := 0
	for _, at := range braces.FindAllStringSubmatchIndex(text, -1) {
		f, err := parseFigure(text[at[2]:at[3]])
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		s.figures = append(s.figures, f)
		plain(text[end:at[0]])
		pattern.WriteString(number)
		end = at[1]
	}
	plain(text[end:])
	if len(s.figures) == 0 {
		return nil, fmt.Errorf("%q quotes no figure", text)
	}
	var err error
	s.pattern, err = regexp.Compile(pattern.String())
	return s, err
}

func parseFigure(text string) (f figure, err error) {
	text, digits, rounds := strings.Cut(text, "~")
	if rounds {
		if f.digits, err = strconv.Atoi(strings.TrimSpace(digits)); err != nil || f.digits < 1 {
			return f, fmt.Errorf("%q: want the number of digits after ~", digits)
		}
	}
	if parts := strings.Split(text, " | "); len(parts) == 3 {
		f.section, f.row, f.column = strings.TrimSpace(parts[0]), strings.TrimSpace(parts[1]), strings.TrimSpace(parts[2])
		return f, nil
	}
	name, bound, _ := strings.Cut(text, ";")
	f.row, f.bound = strings.TrimSpace(name), strings.TrimSpace(bound)
	if f.bound != "" && f.bound != "least" && f.bound != "most" {
		return f, fmt.Errorf("%q: want least or most", f.bound)
	}
	return f, nil
}

var parts = regexp.MustCompile(`^` + number + `(?: \(` + number + `–` + number + `\))?`)

// in returns the figure as the report has it.
func (f *figure) in(r *report.Page) (string, error) {
	var cell string
	var found bool
	if f.section != "" {
		cell, found = r.Cell(f.section, f.row, f.column)
	} else {
		cell, found = r.Measured(f.row)
	}
	m := parts.FindStringSubmatch(cell)
	if !found || m == nil {
		return "", fmt.Errorf("the report has no figure for %q", strings.Trim(f.section+" | "+f.row+" | "+f.column, " |"))
	}
	value := m[map[string]int{"": 1, "least": 2, "most": 3}[f.bound]]
	if value == "" { // it was measured once
		value = m[1]
	}
	if f.digits == 0 {
		return value, nil
	}
	return round(value, f.digits)
}

// round returns a number with some significant digits.
func round(text string, digits int) (string, error) {
	n, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	if err != nil {
		return "", err
	}
	short, err := strconv.ParseFloat(strconv.FormatFloat(n, 'e', digits-1, 64), 64)
	if err != nil {
		return "", err
	}
	text = strconv.FormatFloat(short, 'f', -1, 64)
	if whole, _, fraction := strings.Cut(text, "."); !fraction {
		for at := len(whole) - 3; at > 0; at -= 3 {
			text = text[:at] + "," + text[at:]
		}
	}
	return text, nil
}

// Rewritten returns the text of a page with the figures of the report.
func (p *Page) Rewritten(text string, r *report.Page) (string, error) {
	var faults []error
	for _, s := range p.statements {
		var err error
		if text, err = s.rewritten(text, r); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", p.Path, err))
		}
	}
	text, err := rewriteTables(text, r)
	if err != nil {
		faults = append(faults, fmt.Errorf("%s: %w", p.Path, err))
	}
	return text, errors.Join(faults...)
}

func (s *statement) rewritten(text string, r *report.Page) (string, error) {
	found := s.pattern.FindAllStringSubmatchIndex(text, -1)
	if len(found) != 1 {
		return text, fmt.Errorf("%d statements %q; want one", len(found), s.text)
	}
	var b strings.Builder
	end := 0
	for i := range s.figures {
		value, err := s.figures[i].in(r)
		if err != nil {
			return text, err
		}
		b.WriteString(text[end:found[0][2*i+2]] + value)
		end = found[0][2*i+3]
	}
	return b.String() + text[end:], nil
}

var region = regexp.MustCompile(`(?s)(<!-- report: ([^\n]+?) -->\n).*?(\n?<!-- /report -->)`)

// rewriteTables copies tables of the report between the marks of a page.
func rewriteTables(text string, r *report.Page) (string, error) {
	var faults []error
	text = region.ReplaceAllStringFunc(text, func(old string) string {
		m := region.FindStringSubmatch(old)
		tables := r.Tables[m[2]]
		if tables == nil {
			faults = append(faults, fmt.Errorf("the report has no table %q", m[2]))
			return old
		}
		var text strings.Builder
		text.WriteString(m[1])
		for i := range tables {
			text.WriteString("\n" + tables[i].Markdown())
		}
		return text.String() + "\n<!-- /report -->"
	})
	return text, errors.Join(faults...)
}

// Unquoted returns the text of a page without what Rewritten keeps equal to the report.
func (p *Page) Unquoted(text string) string {
	for _, s := range p.statements {
		text = s.pattern.ReplaceAllLiteralString(text, "")
	}
	return region.ReplaceAllLiteralString(text, "")
}

// Update rewrites all pages by the newest report.
func Update(root string) error {
	pages, err := Pages()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, report.Newest)) //nolint:gosec // a page of the repository
	if err != nil {
		return err
	}
	r, err := report.Parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", report.Newest, err)
	}
	var faults []error
	for _, p := range pages {
		file := filepath.Join(root, p.Path)
		old, err := os.ReadFile(file) //nolint:gosec // a page of the repository
		if err != nil {
			return err
		}
		text, err := p.Rewritten(string(old), r)
		if faults = append(faults, err); text != string(old) {
			faults = append(faults, os.WriteFile(file, []byte(text), 0o644)) //nolint:gosec // a public page
		}
	}
	return errors.Join(faults...)
}
