package rules

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/koalagate/koalagate/internal/method"
	"github.com/koalagate/koalagate/internal/vocabulary"
)

// checkTables loads the tables and connects thresholds and parameters to them.
func (p *parser) checkTables(set *Set) {
	declared := make(map[string]*tableDecl, len(p.tables))
	for _, d := range p.tables {
		declared[d.name.text()] = d
		if table := p.openTable(d); table != nil {
			set.Tables[d.name.text()], set.tableAt[place{d.name.line.file, d.path.text()}] = table, table
		}
	}
	names := slices.Sorted(maps.Keys(declared))
	unknown := func(at span, message, hint, word string, known []string) {
		if !p.found.skips(errTableUnknown) {
			p.found.add(errTableUnknown, at, Finding{Message: message, Hint: hint, Suggestion: suggest(word, known)})
		}
	}
	find := func(name, column string, at span) (*Table, int) {
		d := declared[name]
		if d == nil {
			unknown(at, fmt.Sprintf("unknown table %q", name), "declare it in [tables]", name, names)
			return nil, 0
		}
		d.used = true
		table := set.Tables[name]
		if table == nil {
			return nil, 0 // this has been reported
		}
		cell, ok := table.places[column]
		if !ok {
			unknown(at, fmt.Sprintf("the table %s has no column %q", name, column),
				"name a column of its header, except the first, which is the key", column, table.columns)
			return nil, 0
		}
		return table, cell
	}
	c := cellChecker{parser: p, checked: make(map[cellCheck]checkedCells)}
	for _, d := range p.eachRule() {
		whole := true
		for _, v := range d.varying {
			if t := &d.Thresholds[v.index]; t.Table != "" {
				t.table, t.cell = find(t.Table, t.Column, v.table)
				whole = t.table != nil && c.check(t).valid && whole
			}
		}
		if whole && method.Of(d.Method).Refills && d.Time > 0 {
			c.checkBuckets(d)
		}
	}
	for _, d := range p.params {
		for i := range d.Sources {
			if s := &d.Sources[i]; s.Kind == FromTable {
				s.table, s.cell = find(s.Name, s.Path, d.tables[i])
			}
		}
	}
}

func (p *parser) openTable(d *tableDecl) *Table {
	if p.options.OpenTable == nil {
		p.reportf(d.path, errTableRead, "tables are not available here", "cannot read the table %s from %q", d.name.text(), d.path.mention())
		return nil
	}
	table, err := p.options.OpenTable(d.name.line.file, d.path.text())
	var mistakes *tableError
	switch {
	case err == nil:
		return table
	case errors.As(err, &mistakes):
		for _, f := range mistakes.faults {
			p.found.add(f.code, span{}, Finding{
				Position: Position{mistakes.name, f.line, f.column}, Message: f.message, Hint: f.hint, Line: f.row,
			})
		}
	default:
		p.reportf(d.path, errTableRead, fileHint(d.path, err), "cannot read the table %s from %q: %v", d.name.text(), d.path.mention(), err)
	}
	return nil
}

// cellChecker checks the cells of tables that rules use as thresholds.
type cellChecker struct {
	*parser
	checked map[cellCheck]checkedCells
}

// cellCheck is a column of a table and the range of its numbers.
type cellCheck struct {
	table       *Table
	cell        int
	least, most int64
}

// checkedCells are the cells of a column: whether all are valid, and the largest number.
type checkedCells struct {
	valid   bool
	largest int64
}

// check checks the cells of a column, once per range.
func (c *cellChecker) check(t *Threshold) checkedCells {
	column := cellCheck{t.table, t.cell, t.least, t.most}
	found, known := c.checked[column]
	if known {
		return found
	}
	faults, number := 0, 0
	for key, row := range t.table.rows.All() {
		if number++; faults == maxTableFaults {
			break
		}
		yieldAt(number)
		cell := row.Cell(t.cell)
		n, _, ok := t.parseCell(cell)
		if found.largest = max(found.largest, n); !ok {
			faults++
			f := Finding{
				Message: fmt.Sprintf("the cell %s of %q is no %s: %q", t.Column, shortened(key), t.Word, shortened(cell)),
				Hint:    fmt.Sprintf("want %d … %d in digits, unlimited or an empty cell", t.least, t.most),
			}
			if strings.EqualFold(cell, unlimitedWord) {
				f.Suggestion = unlimitedWord
			}
			c.report(t, key, row.Line(), f)
		}
	}
	found.valid = faults == 0
	c.checked[column] = found
	return found
}

// report reports a cell that a threshold cannot use.
func (c *cellChecker) report(t *Threshold, key string, line int, f Finding) {
	c.reportCell(errCell, t.table, t.cell, key, line, f)
}

// reportCell reports a cell of a table.
func (c *cellChecker) reportCell(code *vocabulary.Code, table *Table, cell int, key string, line int, f Finding) {
	row, _ := table.rows.Find(key)
	cells := make([]string, 0, len(table.columns)+1)
	cells = append(cells, key)
	for i := range table.columns {
		cells = append(cells, row.Cell(i))
	}
	text, column := rowText(cells, cell+1)
	f.Position, f.Line = Position{table.name, line, column}, text
	c.found.add(code, span{}, f)
}

// checkBuckets checks the product of each bucket that a token rule may have. The values
// of parameters are checked when a request brings them.
func (c *cellChecker) checkBuckets(d *ruleDecl) {
	worst := c.worst(d)
	if d.isExact(&worst) {
		return // the usual case
	}
	for i := range d.Thresholds {
		if d.Thresholds[i].Table != "" {
			c.checkBucketsOf(d, &d.Thresholds[i], worst)
		}
	}
}

// checkBucketsOf checks the buckets of the rows of one threshold.
func (c *cellChecker) checkBucketsOf(d *ruleDecl, t *Threshold, worst Limits) {
	number, faults := 0, 0
	for key, row := range t.table.rows.All() {
		if number++; faults == maxTableFaults {
			return
		}
		yieldAt(number)
		n, given, _ := t.parseCell(row.Cell(t.cell))
		if !given {
			continue
		}
		l, first := worst, t
		for i := range d.Thresholds {
			if same := &d.Thresholds[i]; same.table == t.table && same.Param == t.Param {
				m, given, _ := same.parseCell(row.Cell(same.cell))
				if !given {
					m = same.Else
				} else if same.Word == "burst" {
					first = same // which is reported for both
				}
				*l.of(same.Word) = m
			}
		}
		*l.of(t.Word) = n
		if first != t {
			continue
		}
		if !d.statesBurst {
			l.Burst = l.Count
		}
		if !l.isUnlimited() && !d.isExact(&l) {
			faults++
			message, hint := d.excess(&l)
			c.report(t, key, row.Line(), Finding{Message: fmt.Sprintf("the cell %s of %q: %s", t.Column, shortened(key), message), Hint: hint})
		}
	}
}

// worst returns the largest limits of a rule with a bucket, except those from parameters.
func (c *cellChecker) worst(d *ruleDecl) Limits {
	l := d.Limits
	for i := range d.Thresholds {
		t := &d.Thresholds[i]
		n := max(t.Else, 0)
		if t.Table != "" {
			n = max(n, c.check(t).largest)
		}
		*l.of(t.Word) = n
	}
	if !d.statesBurst {
		l.Burst = l.Count
	}
	return l
}
