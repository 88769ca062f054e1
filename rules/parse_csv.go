package rules

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"errors"
	"fmt"
	stdhash "hash"
	"io"
	"strings"
	"unicode/utf8"
)

// csvReader reads the records of a CSV file, without blanks around cells and without
// blank lines.
type csvReader struct {
	text    *csvText
	sum     stdhash.Hash // of the file
	records *csv.Reader
}

// csvFault is a mistake in the text of a CSV file.
type csvFault struct {
	line          int
	column        int // 0 for the whole line
	message, hint string
}

func (f *csvFault) Error() string { return f.message }

func newCSVReader(from io.Reader) *csvReader {
	r := &csvReader{sum: sha256.New()}
	r.text = &csvText{from: bufio.NewReaderSize(io.TeeReader(from, r.sum), 1<<16)}
	r.records = csv.NewReader(r.text)
	r.records.ReuseRecord, r.records.FieldsPerRecord, r.records.TrimLeadingSpace = true, -1, true
	return r
}

// next returns the cells of the next record, which are valid until the next call. The
// error is io.EOF at the end, a csvFault, or the file's error.
func (r *csvReader) next() ([]string, error) {
	for {
		record, err := r.records.Read()
		if err != nil {
			return nil, r.explain(err)
		}
		for i, cell := range record {
			if !utf8.ValidString(cell) {
				line, _ := r.position(i)
				return nil, &csvFault{line, 0, "the row is not UTF-8 (GBK?)", "save the file as UTF-8"}
			}
			record[i] = strings.TrimSpace(cell)
		}
		if len(record) > 1 || record[0] != "" {
			return record, nil
		}
	}
}

// explain returns an error of the csv package as a csvFault.
func (r *csvReader) explain(err error) error {
	var mistake *csv.ParseError
	switch {
	case r.text.fault != nil:
		return r.text.fault
	case !errors.As(err, &mistake):
		return err
	case errors.Is(err, csv.ErrBareQuote):
		return &csvFault{mistake.Line, mistake.Column, "quote inside a cell", `quote the whole cell, and write "" for a quote in it`}
	case r.text.ended && r.text.state == inQuotes:
		return &csvFault{mistake.StartLine, 0, "a quote in this row is not closed", `close it with "; inside quotes, "" is a quote`}
	}
	return &csvFault{mistake.Line, mistake.Column, "text after a quoted cell", `write a comma between two cells, and "" for a quote in a cell`}
}

// position returns the line and the column of a cell of the last record, from 1.
func (r *csvReader) position(i int) (line, column int) { return r.records.FieldPos(i) }

// csvText is the text of a CSV file for encoding/csv, which does not accept a byte order
// mark, nor blanks after a quoted cell.
type csvText struct {
	from  *bufio.Reader
	begun bool
	ended bool // the end was read
	state cellState
	line  int       // from 0
	row   int       // the size of the current row, in bytes
	fault *csvFault // the error of Read, if it is one of the text
}

// maxRowSize is the size of a row in the file, in bytes. It bounds the memory for a file
// with a quote that is not closed, or of another kind.
const maxRowSize = 16 << 20

// cellState is a position within a cell.
type cellState uint8

const (
	beforeCell cellState = iota
	inCell               // in a cell without quotes
	inQuotes
	afterQuote // after a quote that may end a quoted cell
)

// Read implements io.Reader.
func (t *csvText) Read(b []byte) (int, error) {
	if !t.begun {
		t.begun = true
		begin, _ := t.from.Peek(len(byteOrderMark)) // the error returns with the next read
		switch {
		case bytes.HasPrefix(begin, []byte("\xff\xfe")), bytes.HasPrefix(begin, []byte("\xfe\xff")):
			return 0, t.fail("the file is UTF-16", "save it as UTF-8")
		case string(begin) == byteOrderMark:
			_, _ = t.from.Discard(len(byteOrderMark)) // never fails after Peek
		}
	}
	for {
		n, err := t.from.Read(b)
		t.ended = t.ended || errors.Is(err, io.EOF)
		kept := b[:0]
		for _, c := range b[:n] {
			if c == 0 {
				return 0, t.fail("the row contains a NUL byte", "want a text file in UTF-8")
			}
			if t.row++; t.row > maxRowSize {
				return 0, t.fail(fmt.Sprintf("the row has more than %d bytes", maxRowSize), "close its quotes, or want a CSV file with one row per key")
			}
			if t.keeps(c) {
				kept = append(kept, c)
			}
		}
		if len(kept) > 0 || err != nil || len(b) == 0 {
			return len(kept), err
		}
	}
}

// fail returns the error of a text that cannot be read on.
func (t *csvText) fail(message, hint string) error {
	t.fault = &csvFault{t.line + 1, 0, message, hint}
	return t.fault
}

// keeps reports whether a byte belongs to the text, and moves past it.
func (t *csvText) keeps(c byte) bool {
	if c == '\n' {
		if t.line++; t.state != inQuotes {
			t.row = 0
		}
	}
	switch {
	case t.state == inQuotes:
		if c == '"' {
			t.state = afterQuote
		}
	case c == ',' || c == '\n':
		t.state = beforeCell
	case t.state == afterQuote && c == '"':
		t.state = inQuotes
	case t.state == afterQuote:
		return !isBlank(c)
	case t.state == beforeCell && c == '"':
		t.state = inQuotes
	case t.state == beforeCell && isBlank(c):
	default:
		t.state = inCell
	}
	return true
}
