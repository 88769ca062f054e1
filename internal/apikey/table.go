package apikey

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/koalagate/koalagate/rules"
)

// The columns that this package reads and fills.
const (
	createdColumn = "created" // the day on which the key was made
	expiresColumn = "expires" // the last day on which it is valid; empty for none
)

const (
	// hashLength is the length of a hash in hex.
	hashLength = 32
	// minID is the least number of a hash's digits that name a key.
	minID = 8
)

// Table is the text of a table of keys. It is immutable.
type Table struct {
	name    string
	text    []byte
	rows    *rules.Table
	columns []string // the key first
}

// Cell is a cell of a new row.
type Cell struct{ Column, Value string }

// Row is the row of a key: the cells in the order of the columns, the hash first.
type Row []string

// ID returns the hash of the key.
func (r Row) ID() string { return r[0] }

// Parse reads a table. The error names the table, and all mistakes that [tables] would have. It
// never quotes a first cell, which may be a key.
func Parse(name string, text []byte) (*Table, error) {
	rows, err := rules.ParseTable(name, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	t := &Table{name, text, rows, rows.Columns()}
	for line, cells := range rows.Rows() {
		if !isHash(cells[0]) {
			return nil, fmt.Errorf("%s:%d: the first cell is no hash of a key; want %d hex digits in lower case, as `hashed` in [params] makes them: the first column of a table of keys is the key", name, line, hashLength)
		}
	}
	if rows.Len() == 0 && !namesKey(t.columns[0]) {
		return nil, fmt.Errorf("%s:1: the table has no key column: its first column is %q, and no row shows that it has hashes; name it key", name, t.columns[0])
	}
	return t, nil
}

// namesKey reports whether a column has the name of a key. Only a table without rows depends on
// it.
func namesKey(column string) bool {
	column = strings.ToLower(column)
	return strings.Contains(column, "key") || strings.Contains(column, "hash")
}

// Columns returns the names of the columns, that of the key first.
func (t *Table) Columns() []string { return t.columns }

// Len returns the number of keys.
func (t *Table) Len() int { return t.rows.Len() }

// Rows yields the rows in the order of the file. A row is valid until the next one.
func (t *Table) Rows() iter.Seq[Row] {
	return func(yield func(Row) bool) {
		for _, cells := range t.rows.Rows() {
			if !yield(cells) {
				return
			}
		}
	}
}

// Add returns the text of the table with a row for the hash of a key: its bytes, and the row at
// their end. The column created has the day of now. Cells are of the other columns, each once.
func (t *Table) Add(hash string, cells []Cell, now time.Time) ([]byte, error) {
	row := make([]string, len(t.columns))
	row[0] = hash
	if i := slices.Index(t.columns[1:], createdColumn); i >= 0 {
		row[1+i] = now.Format(time.DateOnly)
	}
	given := make(map[string]bool)
	for _, c := range cells {
		i := slices.Index(t.columns, c.Column)
		switch {
		case i < 0:
			return nil, fmt.Errorf("%s has no column %q; its columns are %s", t.name, c.Column, strings.Join(t.columns[1:], ", "))
		case i == 0:
			return nil, fmt.Errorf("the column %s of %s is the key, which is made; leave it out", c.Column, t.name)
		case c.Column == createdColumn:
			return nil, fmt.Errorf("the column %s is today's date; leave it out", createdColumn)
		case given[c.Column]:
			return nil, fmt.Errorf("the column %s occurs twice; state it once", c.Column)
		}
		given[c.Column] = true
		value := strings.TrimSpace(c.Value) // as the table is read
		if err := checkCell(c.Column, c.Value); err != nil {
			return nil, err
		}
		row[i] = value
	}
	line := lineEnd(t.text)
	text := slices.Clone(t.text)
	if !bytes.HasSuffix(text, []byte("\n")) {
		text = append(text, line...)
	}
	for i, cell := range row {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, quoted(cell)...)
	}
	return t.checked(append(text, line...), 1)
}

// checkCell returns an error if a column cannot have the value.
func checkCell(column, value string) error {
	switch {
	case !utf8.ValidString(value):
		return fmt.Errorf("the value of %s is not UTF-8", column)
	case strings.ContainsFunc(value, unicode.IsControl):
		return fmt.Errorf("the value of %s has a control character; remove it", column)
	case column == expiresColumn && strings.TrimSpace(value) != "" && !isDate(strings.TrimSpace(value)):
		return fmt.Errorf("%s is %q; want the last day on which the key is valid, such as 2026-12-31", column, value)
	}
	return nil
}

func isDate(text string) bool {
	_, ok := rules.ParseInstant(text, time.UTC)
	return ok && len(text) == len(time.DateOnly) && text[4] == '-'
}

// Remove returns the text of the table without the row of a key, and this row. The key is named
// by its hash or by its first digits, eight at least, if no other key has them.
func (t *Table) Remove(id string) ([]byte, Row, error) {
	id = strings.ToLower(id)
	if len(id) < minID || len(id) > hashLength || !isHex(id) {
		return nil, nil, fmt.Errorf("want the hash of a key, as `koalagate key list` prints it, or %d or more of its first digits", minID)
	}
	var found Row
	at := 0
	for line, cells := range t.rows.Rows() {
		if !strings.HasPrefix(cells[0], id) {
			continue
		}
		if found != nil {
			return nil, nil, fmt.Errorf("%s has several keys whose hash begins with %s; state more digits", t.name, id)
		}
		found, at = slices.Clone(cells), line
	}
	if found == nil {
		return nil, nil, &UnknownError{t.name, id}
	}
	begin := 0
	for range at - 1 {
		begin += 1 + bytes.IndexByte(t.text[begin:], '\n')
	}
	text, err := t.checked(slices.Delete(slices.Clone(t.text), begin, begin+rowLength(t.text[begin:])), -1)
	return text, found, err
}

// UnknownError is the error of a key that a table does not have.
type UnknownError struct{ table, id string }

// Error implements error.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("%s has no key whose hash begins with %s", e.table, e.id)
}

// rowLength returns the length of the row that a text begins with, its line end included.
func rowLength(text []byte) int {
	inQuotes := false
	for i, c := range text {
		switch {
		case c == '"': // "" in a quoted cell ends and begins it
			inQuotes = !inQuotes
		case c == '\n' && !inQuotes:
			return i + 1
		}
	}
	return len(text)
}

// checked returns a changed text, if it is a table with so many rows more.
func (t *Table) checked(text []byte, more int) ([]byte, error) {
	changed, err := Parse(t.name, text)
	switch {
	case more < 0 && t.Len() == 1 && err != nil: // the last key of a table whose key column has another name
		rows, err := rules.ParseTable(t.name, bytes.NewReader(text))
		if err != nil || rows.Len() != 0 {
			return nil, fmt.Errorf("%s: removing the row would damage the table; remove it by hand", t.name)
		}
		return text, nil
	case err != nil:
		return nil, err
	case changed.Len() != t.Len()+more || !slices.Equal(changed.columns, t.columns):
		return nil, fmt.Errorf("%s: the change would damage the table; edit it by hand", t.name)
	}
	return text, nil
}

// Outcomes of Verify other than a valid key, ErrMistyped and ErrForm.
var (
	// ErrUnknown is the error of a key that the table does not have.
	ErrUnknown = errors.New("the key is unknown: it was revoked, or belongs to another table")
	// ErrExpired is the error of a key whose day is over.
	ErrExpired = errors.New("the key has expired")
)

// Verify returns the row of a key. An expired key has a row and the error ErrExpired; the zone is
// that of its date. A key that the table does not have has one of the errors ErrUnknown,
// ErrMistyped and ErrForm.
func (t *Table) Verify(key string, now time.Time, zone *time.Location) (Row, error) {
	hash := Hash(key)
	for row := range t.Rows() {
		if row.ID() == hash {
			found := slices.Clone(row)
			return found, t.checkExpiry(found, now, zone)
		}
	}
	if err := Check(key); err != nil {
		return nil, err
	}
	return nil, ErrUnknown
}

func (t *Table) checkExpiry(row Row, now time.Time, zone *time.Location) error {
	i := slices.Index(t.columns, expiresColumn)
	if i < 1 || row[i] == "" {
		return nil
	}
	end, ok := rules.ParseInstant(row[i], zone)
	switch {
	case !ok:
		return fmt.Errorf("the cell %s of the key is %q; want a date such as 2026-12-31", expiresColumn, row[i])
	case !now.Before(end):
		return ErrExpired
	}
	return nil
}

// lineEnd returns how the lines of a text end.
func lineEnd(text []byte) string {
	if i := bytes.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// quoted returns a cell as it is written.
func quoted(cell string) string {
	if strings.ContainsAny(cell, `,"`) {
		return `"` + strings.ReplaceAll(cell, `"`, `""`) + `"`
	}
	return cell
}

func isHash(text string) bool { return len(text) == hashLength && isHex(text) }

func isHex(text string) bool { return strings.Trim(text, "0123456789abcdef") == "" }
