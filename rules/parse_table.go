package rules

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/koalagate/koalagate/internal/rowtable"
	"github.com/koalagate/koalagate/internal/vocabulary"
)

// ParseTable reads a CSV file as in RFC 4180 with a header. It skips a byte order mark,
// blank lines and blanks around cells. Errors name the table, and wrap the errors of r.
// Parse reports each mistake in a table as a finding of its own.
func ParseTable(name string, r io.Reader) (*Table, error) {
	p := tableParser{
		table: &Table{name: name, places: make(map[string]int)},
		lines: newCSVReader(r),
	}
	if err := p.parse(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(p.faults) > 0 {
		return nil, &tableError{name, p.faults}
	}
	p.table.rows = p.rows.Table()
	p.lines.sum.Sum(p.table.hash[:0])
	return p.table, nil
}

// tableFault is a mistake in a table.
type tableFault struct {
	code          *vocabulary.Code
	line, column  int // of the file, from 1; the column is 0 for the whole line
	message, hint string
	row           string // the cells of the row, as text
}

// maxTableFaults is the number of mistakes that are kept of a table.
const maxTableFaults = 100

// tableError is the error of a table with mistakes.
type tableError struct {
	name   string
	faults []tableFault
}

// Error returns the first mistake and the number of the others.
func (e *tableError) Error() string {
	first := e.faults[0]
	text := fmt.Sprintf("%s: %s; %s", Position{e.name, first.line, first.column}, first.message, first.hint)
	if more := len(e.faults) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// tableParser reads a table.
type tableParser struct {
	table  *Table
	lines  *csvReader
	rows   rowtable.Builder
	faults []tableFault
}

func (p *tableParser) parse() error {
	hasHeader := false
	for number := 1; ; number++ {
		yieldAt(number)
		record, err := p.lines.next()
		var fault *csvFault
		switch {
		case errors.Is(err, io.EOF):
			if !hasHeader && len(p.faults) == 0 {
				p.report(tableFault{errTableText, 1, 0, "the table has no header", "write the names of the columns in its first line", ""})
			}
			return nil
		case errors.As(err, &fault): // the rest of the file cannot be interpreted
			p.report(tableFault{errTableText, fault.line, fault.column, fault.message, fault.hint, ""})
			return nil
		case err != nil:
			return err
		case hasHeader:
			p.row(record)
		default:
			hasHeader = true
			p.header(record)
		}
	}
}

// report keeps a mistake.
func (p *tableParser) report(f tableFault) { p.faults = append(p.faults, f) }

// fault reports a mistake in the cell i of the current record, unless there are many.
func (p *tableParser) fault(code *vocabulary.Code, record []string, i int, message, hint string) {
	if len(p.faults) < maxTableFaults {
		line, _ := p.lines.position(i)
		row, column := rowText(record, i)
		p.report(tableFault{code, line, column, message, hint, row})
	}
}

// header reads the names of the columns.
func (p *tableParser) header(record []string) {
	t := p.table
	t.key = strings.Clone(record[0])
	t.columns = make([]string, 0, len(record)-1)
	for i, name := range record[1:] {
		switch _, repeated := t.places[name]; {
		case !isColumnName(name):
			p.fault(errColumnName, record, i+1, fmt.Sprintf("invalid column name %q", shortened(name)), "want letters, digits and _, beginning with a letter or _")
		case repeated:
			p.fault(errColumnName, record, i+1, fmt.Sprintf("the column %s occurs twice", shortened(name)), "rename or remove one of them")
		default:
			name = strings.Clone(name)
			t.places[name] = i
		}
		t.columns = append(t.columns, name)
	}
}

// row adds a row.
func (p *tableParser) row(record []string) {
	want := len(p.table.columns) + 1
	switch key := record[0]; {
	case len(record) != want:
		at := min(want, len(record)-1)
		p.fault(errRowLength, record, at, fmt.Sprintf("the row has %s, the header %d", cellsText(len(record)), want), "write one cell per column, and quote a cell that contains a comma")
	case key == "":
		p.fault(errRowKey, record, 0, "the row has no key", "write the key in the first cell, or remove the row")
	case len(p.faults) > 0: // the table is not used
	default:
		line, _ := p.lines.position(0)
		if !p.rows.Add(line, key, record[1:]) {
			p.fault(errRowKey, record, 0, fmt.Sprintf("the key %q occurs twice", shortened(key)), "remove one of the rows")
		}
	}
}

func cellsText(n int) string {
	if n == 1 {
		return "1 cell"
	}
	return fmt.Sprintf("%d cells", n)
}

// shortened returns the beginning of a text for messages.
func shortened(text string) string {
	if len(text) <= maxMention {
		return text
	}
	return strings.ToValidUTF8(text[:maxMention], "") + "…"
}

// isColumnName reports whether a column has a name that rule files can use.
func isColumnName(name string) bool {
	for i := range len(name) {
		if b := name[i]; !inName(b, i == 0) || b == '.' || b == ':' || b == '-' {
			return false
		}
	}
	return name != ""
}

// maxRowText is the length of a row beyond which findings do not show it, in bytes.
const maxRowText = 4 << 10

// rowText returns a row as text in a file without superfluous blanks and quotes, and
// the column of one of its cells there. The text is empty if the row is long.
func rowText(cells []string, at int) (text string, column int) {
	var b strings.Builder
	length := 0 // in characters
	for i, cell := range cells {
		if i == at {
			column = 1 + length
		}
		if strings.ContainsAny(cell, "\",\r\n") {
			cell = `"` + strings.ReplaceAll(cell, `"`, `""`) + `"`
		}
		length += utf8.RuneCountInString(cell) + len(",")
		switch {
		case b.Len()+len(cell) <= maxRowText:
			b.WriteString(cell + ",")
		case i >= at:
			return "", column
		}
	}
	if length > maxRowText {
		return "", column
	}
	return strings.TrimSuffix(b.String(), ","), column
}
