// Package jsontext appends strings to JSON texts that are built by hand.
// Answers, problem documents and trace lines are built that way because
// encoding/json needs several allocations for each of them.
package jsontext

import "unicode/utf8"

// AppendString appends s as a JSON string to b. The bytes are the same as from
// json.Marshal: <, > and & are escaped, so that the text is safe inside HTML,
// and each byte that is not UTF-8 becomes \ufffd.
func AppendString(b []byte, s string) []byte { return appendString(b, s, true) }

// AppendStringRawHTML is AppendString without the escapes of <, > and &: the
// bytes equal the output of a json.Encoder with SetEscapeHTML(false).
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
		case r == '\u2028' || r == '\u2029': // line ends in JavaScript
			b = append(append(b, s[copied:i]...), `\u202`...)
			b = append(b, hexDigits[r&0xf])
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
	return c >= ' '
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
	return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
}
