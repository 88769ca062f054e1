package display

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Screen passes text on to a terminal, with U+FFFD for each character that it could interpret:
// whatever a client, a file or another instance wrote, commands show it, and obey nothing. Lines
// and tabs pass. It is safe for concurrent use.
type Screen struct {
	io.Writer
	// Colors lets the colors of Painter pass.
	Colors bool

	mu    sync.Mutex
	begun []byte // a character whose end has not been written yet
}

// styles are the escape sequences of Painter.
var styles = func() (list [][]byte) {
	for _, c := range []Color{Faint, Red, Green, Yellow, "0"} {
		list = append(list, []byte("\x1b["+c+"m"))
	}
	return list
}()

// Write implements io.Writer.
func (s *Screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := slices.Concat(s.begun, b)
	s.begun = nil
	var shown strings.Builder
	shown.Grow(len(text))
	for i := 0; i < len(text); {
		if style := s.style(text[i:]); style != nil {
			shown.Write(style)
			i += len(style)
			continue
		}
		if !utf8.FullRune(text[i:]) {
			s.begun = slices.Clone(text[i:])
			break
		}
		r, size := utf8.DecodeRune(text[i:])
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			r = unicode.ReplacementChar
		}
		shown.WriteRune(r)
		i += size
	}
	if _, err := io.WriteString(s.Writer, shown.String()); err != nil {
		return 0, err
	}
	return len(b), nil
}

// style returns the style that a text begins with, nil for none.
func (s *Screen) style(text []byte) []byte {
	if !s.Colors || text[0] != styles[0][0] {
		return nil
	}
	for _, one := range styles {
		if bytes.HasPrefix(text, one) {
			return one
		}
	}
	return nil
}
