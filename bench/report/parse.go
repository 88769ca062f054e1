package report

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Page is a report as it is kept.
type Page struct {
	Tables map[string][]Table // by the names of sections
}

// Parse reads a report.
func Parse(text string) (*Page, error) {
	p := &Page{Tables: map[string][]Table{}}
	section, inTable := "", false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if name, heading := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); heading && strings.HasPrefix(line, "#") {
			section = name
		}
		cells, row := cellsOf(line)
		tables := p.Tables[section]
		switch {
		case row && !inTable:
			p.Tables[section] = append(tables, Table{Columns: cells})
		case row && strings.Trim(line, "|- ") != "":
			last := &tables[len(tables)-1]
			if len(cells) != len(last.Columns) {
				return nil, fmt.Errorf("%s: the row %q has %d cells; want %d", section, line, len(cells), len(last.Columns))
			}
			last.Rows = append(last.Rows, cells)
		}
		inTable = row
	}
	if p.of("commit") == "" || p.of("begun") == "" || p.of("machine") == "" {
		return nil, errors.New("no commit, time or machine of the run")
	}
	return p, nil
}

// cellsOf returns the cells of a line of a table.
func cellsOf(line string) ([]string, bool) {
	inner, opens := strings.CutPrefix(line, "|")
	inner, closes := strings.CutSuffix(inner, "|")
	if !opens || !closes {
		return nil, false
	}
	cells := strings.Split(inner, "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells, true
}

// ReadKept reads the newest report and the earlier ones, the latest first. Without a newest
// one there are none.
func ReadKept(root string) ([]*Page, error) {
	files, err := filepath.Glob(filepath.Join(root, Earlier, "*.md"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	slices.Reverse(files)
	newest := filepath.Join(root, Newest)
	if _, err := os.Stat(newest); err == nil {
		files = slices.Insert(files, 0, newest)
	}
	var pages []*Page
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // a page of the repository
		if err != nil {
			return nil, err
		}
		p, err := Parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		pages = append(pages, p)
	}
	return pages, nil
}

// Cell returns a cell by the names of its section, row and column, and whether there is
// exactly one.
func (p *Page) Cell(section, row, column string) (string, bool) {
	var found []string
	for _, t := range p.Tables[section] {
		at := slices.Index(t.Columns, column)
		for _, cells := range t.Rows {
			if at > 0 && cells[0] == row {
				found = append(found, cells[at])
			}
		}
	}
	if len(found) != 1 {
		return "", false
	}
	return found[0], true
}

// of returns a property of the run, "" if it is missing.
func (p *Page) of(property string) string {
	value, _ := p.Cell(RunSection, property, "of this report")
	return value
}

// Measured returns a figure, and whether it was measured.
func (p *Page) Measured(figure string) (string, bool) {
	for _, section := range []string{GoalsSection, FiguresSection} {
		if cell, is := p.Cell(section, figure, "measured"); is && cell != notMeasured {
			return cell, true
		}
	}
	return "", false
}

// median returns the median of a figure, and whether it was measured.
func (p *Page) median(figure string) (float64, bool) {
	cell, _ := p.Measured(figure)
	text, _, _ := strings.Cut(cell, " ")
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil
}
