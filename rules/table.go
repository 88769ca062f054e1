package rules

import (
	"crypto/sha256"
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

// lookUp returns the cell of a column in the row whose key is the trimmed text, with the
// row's line; "" if there is no such row.
func (t *Table) lookUp(key string, column int) (cell string, line int) {
	row, ok := t.rows.Find(strings.TrimSpace(key))
	if !ok {
		return "", 0
	}
	return row.Cell(column), row.Line()
}
