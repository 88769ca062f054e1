package adminapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/koalagate/koalagate/internal/pace"
)

// longTexts passes a JSON document on to a json.Decoder, which keeps a value as a whole and
// scans it twice at a stretch. It leaves an empty string for each long one, whose text it
// unquotes in pieces, and one space for any number.
type longTexts struct {
	ctx  context.Context
	in   io.Reader
	room []byte // what a read fills
	rest []byte // of it
	err  error  // that ends in

	out    []byte // to be passed on
	passed int64  // the bytes that out has had so far
	spaced bool   // the last byte was a space
	word   int    // the length of a number or a name without quotes

	inside  bool // a string
	escaped bool // by the last byte
	quoted  []byte
	parts   []string         // the pieces of the string before quoted
	texts   map[int64]string // the long texts by passed behind their places
}

// Read passes on the next piece of the document.
func (l *longTexts) Read(b []byte) (int, error) {
	for len(l.out) == 0 {
		if len(l.rest) == 0 {
			switch {
			case l.inside && errors.Is(l.err, io.EOF):
				return 0, io.ErrUnexpectedEOF
			case l.err != nil:
				return 0, l.err
			}
			l.fill()
			continue
		}
		if err := l.step(); err != nil {
			l.err, l.rest = err, nil
		}
	}
	n := copy(b, l.out)
	l.out = l.out[n:]
	return n, nil
}

// fill reads a piece.
func (l *longTexts) fill() {
	if l.room == nil {
		l.room = make([]byte, piece)
	}
	var n int
	n, l.err = l.in.Read(l.room)
	l.rest = l.room[:n]
}

// pass adds to what is passed on.
func (l *longTexts) pass(b ...byte) {
	l.out = append(l.out, b...)
	l.passed += int64(len(b))
}

// step passes on what is outside of strings in the piece, or continues a string.
func (l *longTexts) step() error {
	if l.inside {
		return l.text()
	}
	l.out = l.out[:0]
	for i, c := range l.rest {
		switch c {
		case '"':
			l.inside, l.spaced, l.word = true, false, 0
			l.quoted = l.quoted[:0]
			l.rest = l.rest[i+1:]
			return nil
		case ' ', '\t', '\r', '\n':
			if !l.spaced {
				l.pass(' ')
			}
			l.spaced, l.word = true, 0
			continue
		case ',', ':', '{', '}', '[', ']':
			l.word = 0
		default:
			l.word++
		}
		if l.word > piece {
			return fmt.Errorf("a number of more than %d digits", piece)
		}
		l.spaced = false
		l.pass(c)
	}
	l.rest = nil
	return nil
}

// text continues a string, to its end if that is in the piece.
func (l *longTexts) text() error {
	for i, c := range l.rest {
		switch {
		case l.escaped:
			l.escaped = false
		case c == '\\':
			l.escaped = true
		case c == '"':
			l.quoted = append(l.quoted, l.rest[:i]...)
			l.rest, l.inside = l.rest[i+1:], false
			return l.end()
		}
	}
	l.quoted = append(l.quoted, l.rest...)
	l.rest = nil
	for len(l.quoted) > 2*piece {
		if err := l.unquote(unquotable(l.quoted)); err != nil {
			return err
		}
	}
	return nil
}

// unquote keeps the text of the first n bytes of quoted.
func (l *longTexts) unquote(n int) error {
	if err := pace.Step(l.ctx); err != nil {
		return err
	}
	var part string
	if err := json.Unmarshal(bytes.Join([][]byte{nil, l.quoted[:n], nil}, []byte{'"'}), &part); err != nil {
		return err
	}
	l.parts = append(l.parts, part)
	l.quoted = l.quoted[:copy(l.quoted, l.quoted[n:])]
	return nil
}

// end passes a string on, as an empty one if it is long.
func (l *longTexts) end() error {
	l.pass('"')
	if len(l.parts) == 0 {
		l.pass(l.quoted...)
		l.pass('"')
		return nil
	}
	l.pass('"')
	if err := l.unquote(len(l.quoted)); err != nil {
		return err
	}
	size := 0
	for _, part := range l.parts {
		size += len(part)
	}
	var text strings.Builder
	text.Grow(size)
	for _, part := range l.parts {
		if err := pace.Step(l.ctx); err != nil {
			return err
		}
		text.WriteString(part)
	}
	if l.texts == nil {
		l.texts = make(map[int64]string)
	}
	l.texts[l.passed], l.parts = text.String(), nil
	return nil
}

// take returns the text of the string that ends at an offset of what was passed on: its own,
// or the long one whose place it has.
func (l *longTexts) take(end int64, own string) string {
	text, is := l.texts[end]
	if !is {
		return own
	}
	delete(l.texts, end)
	return text
}
