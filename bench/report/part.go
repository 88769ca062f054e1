// Package report contains the report of `make bench`: what the programs that measure return
// to the runner, and the page that the runner makes of it and that tests read again.
package report

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/koalagate/koalagate/bench/stats"
)

// Part is what one program has measured.
type Part struct {
	Sections []Section
	Figures  []Figure
	Programs []string // that it measured, besides koalagate, with their versions

	show io.Writer // gets each section at once, nil for none
}

// Section is a heading with a text and tables. Its name is unique in a report.
type Section struct {
	Name    string
	Chapter bool   // sections without a chapter's rank below the last one with it
	Text    string // Markdown
	Tables  []Table
	Note    string // Markdown, below the tables
}

// Table is a table. The first cell of a row names the row.
type Table struct {
	Columns []string
	Rows    [][]string
}

// Figure is a measured value, which goals refer to by its name.
type Figure struct {
	Name  string
	Value stats.Value
	Unit  string // with a blank before it, or "" for a ratio
}

// String returns the figure without its name.
func (f *Figure) String() string {
	if f.Value.Least == f.Value.Most { // it was measured once
		return fmt.Sprintf("%.2f", f.Value.Median) + f.Unit
	}
	return f.Value.String() + f.Unit
}

// Add adds a section, and shows it at once.
func (p *Part) Add(s Section) {
	p.Sections = append(p.Sections, s)
	if p.show != nil {
		fmt.Fprint(p.show, s.Markdown())
	}
}

// Chapter begins a chapter.
func (p *Part) Chapter(name, text string) {
	p.Add(Section{Name: name, Chapter: true, Text: text})
}

// Figure adds a figure without a unit, unless nothing was measured.
func (p *Part) Figure(name string, value *stats.Value) { p.FigureIn("", name, value) }

// FigureIn adds a figure with a unit, unless nothing was measured.
func (p *Part) FigureIn(unit, name string, value *stats.Value) {
	if value != nil && value.Measured() {
		p.Figures = append(p.Figures, Figure{name, *value, unit})
	}
}

// Markdown returns the section as it stands in the report.
func (s *Section) Markdown() string {
	var b strings.Builder
	rank := "###"
	if s.Chapter {
		rank = "##"
	}
	fmt.Fprintf(&b, "\n%s %s\n", rank, s.Name)
	if s.Text != "" {
		fmt.Fprintf(&b, "\n%s\n", s.Text)
	}
	for i := range s.Tables {
		fmt.Fprintf(&b, "\n%s", s.Tables[i].Markdown())
	}
	if s.Note != "" {
		fmt.Fprintf(&b, "\n%s\n", s.Note)
	}
	return b.String()
}

// Markdown returns the table as it stands in the report.
func (t *Table) Markdown() string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.Columns)
	line(strings.Split(strings.Repeat("---,", len(t.Columns)-1)+"---", ","))
	for _, row := range t.Rows {
		line(row)
	}
	return b.String()
}

// Options are the flags of every program that measures.
type Options struct {
	Short bool // measure briefly and roughly
	only  string
	keep  string
}

// Flags adds the common flags to the command line.
func Flags() *Options {
	o := new(Options)
	flag.BoolVar(&o.Short, "short", false, "measure briefly and roughly, for development")
	flag.StringVar(&o.only, "only", "", "a regular expression for the names of what is measured")
	flag.StringVar(&o.keep, "figures", "", "also write the figures to this `FILE`, for the runner of all benchmarks")
	return o
}

// Chosen returns the expression for the names of what is measured.
func (o *Options) Chosen() (*regexp.Regexp, error) {
	only, err := regexp.Compile(o.only)
	if err != nil {
		err = fmt.Errorf("-only: %w", err)
	}
	return only, err
}

// Begin returns an empty part, whose sections are printed.
func (o *Options) Begin() *Part { return &Part{show: os.Stdout} }

// End prints the figures of a part, and hands it to the runner.
func (o *Options) End(p *Part) error {
	if o.keep == "" {
		fmt.Print("\n")
		for i := range p.Figures {
			fmt.Printf("%s: %s\n", p.Figures[i].Name, &p.Figures[i])
		}
		return nil
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return os.WriteFile(o.keep, text, 0o600)
}

// ReadPart reads what End has handed over.
func ReadPart(file string) (*Part, error) {
	text, err := os.ReadFile(file) //nolint:gosec // a file of the runner
	if err != nil {
		return nil, err
	}
	p := new(Part)
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}
