package rules

import (
	"crypto/sha256"
	"iter"
	"strings"

	"github.com/koalagate/koalagate/internal/rowtable"
)

// Table is a table of [tables]: rows of text cells, by the text of their first cell.
// It is immutable and safe for concurrent use. Besides its text, a row takes about 30
// bytes and one per column.
type Table struct {
	name    string
	hash    [sha256.Size]byte
	key     string         // the name of the first column
	columns []string       // the names of the others
	places  map[string]int // the indexes of columns by name
	rows    *rowtable.Table
}

// Name returns the name that ParseTable was called with.
func (t *Table) Name() string { return t.name }

// Len returns the number of rows.
func (t *Table) Len() int { return t.rows.Len() }

// Columns returns the names of the columns, that of the key first.
func (t *Table) Columns() []string { return append([]string{t.key}, t.columns...) }

// Rows yields the rows in the order of the file: the line in which each begins, from 1, and
// its cells, the key first. The cells are valid until the next row.
func (t *Table) Rows() iter.Seq2[int, []string] {
	return func(yield func(int, []string) bool) {
		cells := make([]string, 1+len(t.columns))
		for key, row := range t.rows.All() {
			cells[0] = key
			for i := range t.columns {
				cells[1+i] = row.Cell(i)
			}
			if !yield(row.Line(), cells) {
				return
			}
		}
	}
}

// lookUp returns the cell of a column in the row whose key is the trimmed text, with the
// row's line; "" if there is no such row.
func (t *Table) lookUp(key string, column int) (cell string, line int) {
	row, ok := t.rows.Find(strings.TrimSpace(key))
	if !ok {
		return "", 0
	}
	return row.Cell(column), row.Line()
}
