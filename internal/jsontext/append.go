// Package jsontext appends strings to JSON texts that are built by hand.
// Answers, problem documents and trace lines are built that way because
// encoding/json needs several allocations for each of them.
package jsontext

import "unicode/utf8"

// AppendString appends s as a JSON string to b, as json.Marshal does: <, > and & are
// escaped, so that the text is safe inside HTML, and each byte that is not UTF-8 becomes
// \ufffd. Characters that Commands reports are escaped, too.
func AppendString(b []byte, s string) []byte { return appendString(b, s, true) }

// AppendStringRawHTML is AppendString without the escapes of <, > and &, as a json.Encoder
// with SetEscapeHTML(false) writes it.
func AppendStringRawHTML(b []byte, s string) []byte { return appendString(b, s, false) }

const hexDigits = "0123456789abcdef"

func appendString(b []byte, s string, escapeHTML bool) []byte {
	b = append(b, '"')
	copied := 0 // s up to here is in b
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if isPlain(c, escapeHTML) {
				i++
				continue
			}
			b = appendEscape(append(b, s[copied:i]...), c)
			i++
			copied = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b = append(append(b, s[copied:i]...), `\ufffd`...)
			copied = i + size
		case r == '\u2028' || r == '\u2029' || Commands(r): // the first two are line ends in JavaScript
			b = appendUnicode(append(b, s[copied:i]...), r)
			copied = i + size
		}
		i += size
	}
	return append(append(b, s[copied:]...), '"')
}

// isPlain reports whether an ASCII character needs no escape.
func isPlain(c byte, escapeHTML bool) bool {
	switch c {
	case '"', '\\':
		return false
	case '<', '>', '&':
		return !escapeHTML
	}
	return c >= ' ' && c != del
}

// appendEscape appends the escape of an ASCII character.
func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\b':
		return append(b, `\b`...)
	case '\f':
		return append(b, `\f`...)
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	}
	return appendUnicode(b, rune(c))
}

// appendUnicode appends the escape of a character below U+10000.
func appendUnicode(b []byte, r rune) []byte {
	return append(b, '\\', 'u', hexDigits[r>>12&0xf], hexDigits[r>>8&0xf], hexDigits[r>>4&0xf], hexDigits[r&0xf])
}

const del = 0x7f

// Commands reports whether a character changes how a terminal or an editor shows others:
// control characters, and those that turn the direction of text. All are below U+10000.
func Commands(r rune) bool {
	switch {
	case r < ' ', r >= del && r < 0xa0:
		return true
	case r == '\u061c', r == '\u200e', r == '\u200f', r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069':
		return true
	}
	return false
}

// AppendEscaped appends a JSON document to b with escapes of the characters in its strings that
// encoding/json leaves as they are, although Commands reports them.
func AppendEscaped(b, document []byte) []byte {
	copied := 0
	for i := 0; i < len(document); {
		if c := document[i]; c < utf8.RuneSelf && c != del {
			i++ // others are escaped, or between values
			continue
		}
		r, size := utf8.DecodeRune(document[i:])
		if Commands(r) {
			b = appendUnicode(append(b, document[copied:i]...), r)
			copied = i + size
		}
		i += size
	}
	return append(b, document[copied:]...)
}
