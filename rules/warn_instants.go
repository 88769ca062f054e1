package rules

import "fmt"

// warnInstants reports cells of tables that a condition compares with the time and that are no
// instants. Such a condition does not hold, whether it asks before or after: a key with a mistyped end
// is valid for ever. An empty cell has no instant on purpose.
func (p *parser) warnInstants() {
	timed := make(map[string]*Condition)
	for _, d := range p.eachRule() {
		for _, c := range d.Conditions {
			if c.isTimed() && timed[c.Name] == nil {
				timed[c.Name] = c
			}
		}
	}
	if len(timed) == 0 {
		return
	}
	c := cellChecker{parser: p}
	checked := make(map[cellCheck]bool)
	for _, d := range p.params {
		condition := timed[d.Name]
		if condition == nil {
			continue
		}
		for i := range d.Sources {
			s := &d.Sources[i]
			if column := (cellCheck{table: s.table, cell: s.cell}); s.table != nil && !s.Hashed && !checked[column] {
				checked[column] = true
				c.warnInstants(s, condition)
			}
		}
	}
}

// warnInstants reports the cells of the column of a source that are no instants.
func (c *cellChecker) warnInstants(s *ParamSource, by *Condition) {
	faults, number := 0, 0
	for key, row := range s.table.rows.All() {
		if number++; faults == maxTableFaults {
			return
		}
		yieldAt(number)
		cell := row.Cell(s.cell)
		if cell == "" {
			continue
		}
		if _, valid := ParseInstant(cell, by.zone); !valid {
			faults++
			c.reportCell(warnNoInstant, s.table, s.cell, key, row.Line(), Finding{
				Message: fmt.Sprintf("the cell %s of %q is neither a date nor a time, so that %s never holds for it: %q", s.Path, shortened(key), by.written, shortened(cell)),
				Hint:    "want a date such as 2027-12-31, a time such as 2027-12-31T18:00, seconds since 1970, or an empty cell",
			})
		}
	}
}
