// Package rowtable holds tables of text cells with millions of rows, which are found
// by the text of their first cell, the key.
package rowtable

import (
	"hash/maphash"
	"iter"
	"strings"
)

// Table is a table that a Builder has built. It is immutable and safe for concurrent
// use. Besides the text of its cells, a row takes 11 to 22 bytes for its slot, one to
// five for the number of its line, and one per cell for its length (more for cells
// from 128 bytes). Nil is an empty table.
//
// A row is a record in one text: the number of its line, the key, an index of its
// other cells if there are many, and these cells; each cell follows its length. So a
// look-up waits for memory twice, for the slot and for the record.
type Table struct {
	text  string
	slots []slot // a power of two; nil while the table is empty
	rows  int
	cells int // per row, without the key
}

// slot is the place of a record in the text plus one, below 24 bits of the hash of its
// key; 0 is an empty slot.
type slot uint64

const (
	placeBits = 40
	placeMask = 1<<placeBits - 1
)

// indexed is the number of cells between two entries of a record's index. An entry is
// the distance of its cell from the first one, in four bytes.
const indexed = 16

// seed is random for each process, so that no file makes all keys collide.
var seed = maphash.MakeSeed()

// Row is a row of a table. The zero value has no cells.
type Row struct {
	line  int
	index string // of the cells
	cells string
	count int
}

// Len returns the number of rows.
func (t *Table) Len() int {
	if t == nil {
		return 0
	}
	return t.rows
}

// Find returns the row with the key, and reports whether there is one.
func (t *Table) Find(key string) (Row, bool) {
	if t == nil || len(t.slots) == 0 {
		return Row{}, false
	}
	hash := maphash.String(seed, key)
	for i := hash; ; i++ {
		s := t.slots[i&uint64(len(t.slots)-1)]
		if s == 0 {
			return Row{}, false
		}
		if uint64(s)>>placeBits != hash>>placeBits {
			continue
		}
		line, rest := cutNumber(t.text[s&placeMask-1:])
		if found, rest := cutText(rest); found == key {
			return t.row(line, rest), true
		}
	}
}

// All yields the keys and rows in the order in which they were added.
func (t *Table) All() iter.Seq2[string, Row] {
	return func(yield func(string, Row) bool) {
		if t == nil {
			return
		}
		for rest := t.text; rest != ""; {
			var line int
			var key string
			line, rest = cutNumber(rest)
			key, rest = cutText(rest)
			row := t.row(line, rest)
			if !yield(key, row) {
				return
			}
			rest = row.cells
			for range t.cells {
				_, rest = cutText(rest)
			}
		}
	}
}

// row returns the row whose index begins the text.
func (t *Table) row(line int, text string) Row {
	index := 4 * entries(t.cells)
	return Row{line: line, index: text[:index], cells: text[index:], count: t.cells}
}

// entries returns the number of entries in the index of a row with n cells.
func entries(n int) int { return max(n-1, 0) / indexed }

// Line returns the number of the row's line that Builder.Add was called with.
func (r Row) Line() int { return r.line }

// Cell returns the cell i after the key, from 0; "" if there is none.
func (r Row) Cell(i int) string {
	if i < 0 || i >= r.count {
		return ""
	}
	rest := r.cells
	if at := i / indexed; at > 0 {
		e := r.index[4*at-4:]
		rest = rest[int(e[0])|int(e[1])<<8|int(e[2])<<16|int(e[3])<<24:]
	}
	for range i % indexed {
		_, rest = cutText(rest)
	}
	cell, _ := cutText(rest)
	return cell
}

// cutText returns the text that follows its length, and the rest.
func cutText(s string) (text, rest string) {
	n, s := cutNumber(s)
	return s[:n], s[n:]
}

// cutNumber returns the number that s begins with, and the rest.
func cutNumber(s string) (int, string) {
	if s[0] < 0x80 { // the usual case
		return int(s[0]), s[1:]
	}
	n := 0
	for i := 0; ; i++ {
		n |= int(s[i]&0x7F) << (7 * i)
		if s[i] < 0x80 {
			return n, s[i+1:]
		}
	}
}

// Builder builds a table. The zero value is ready to use.
type Builder struct {
	table Table
	text  strings.Builder
	sizes []byte // of one row
}

// maxRow is the length of the cells of a row, in bytes, beyond which Add returns
// false: an entry of an index has four bytes.
const maxRow = 1<<31 - 1

// Add adds a row with its key, the number of its line and its other cells, of which
// every row must have the same number. It returns false, and adds nothing, if an
// earlier row has this key or the row is larger than 2 GB.
func (b *Builder) Add(line int, key string, cells []string) bool {
	t := &b.table
	if _, found := t.Find(key); found {
		return false
	}
	size := 0
	b.sizes = b.sizes[:0]
	for i, cell := range cells {
		if i > 0 && i%indexed == 0 {
			b.sizes = append(b.sizes, byte(size), byte(size>>8), byte(size>>16), byte(size>>24))
		}
		if size += numberSize(len(cell)) + len(cell); size > maxRow {
			return false
		}
	}
	if 4*(t.rows+1) > 3*len(t.slots) {
		b.grow()
	}
	place := b.text.Len()
	b.number(line)
	b.cell(key)
	b.text.Write(b.sizes)
	for _, cell := range cells {
		b.cell(cell)
	}
	t.text, t.cells = b.text.String(), len(cells)
	t.insert(key, place)
	t.rows++
	return true
}

// Table returns the table. The builder must not be used after it.
func (b *Builder) Table() *Table { return &b.table }

func (b *Builder) cell(text string) {
	b.number(len(text))
	b.text.WriteString(text)
}

func (b *Builder) number(n int) {
	for ; n >= 0x80; n >>= 7 {
		b.text.WriteByte(byte(n) | 0x80)
	}
	b.text.WriteByte(byte(n))
}

// numberSize returns the number of bytes that number writes.
func numberSize(n int) int {
	size := 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}

// grow doubles the slots.
func (b *Builder) grow() {
	t := &b.table
	t.slots = make([]slot, max(8, 2*len(t.slots)))
	for key, row := range t.All() {
		t.insert(key, len(t.text)-len(row.cells)-len(row.index)-len(key)-numberSize(len(key))-numberSize(row.line))
	}
}

// insert fills a slot with the place of a record.
func (t *Table) insert(key string, place int) {
	hash := maphash.String(seed, key)
	for i := hash; ; i++ {
		if s := &t.slots[i&uint64(len(t.slots)-1)]; *s == 0 {
			*s = slot(hash>>placeBits<<placeBits | uint64(place+1))
			return
		}
	}
}
