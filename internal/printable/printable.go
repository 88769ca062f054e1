// Package printable keeps characters that terminals interpret out of messages.
package printable

import (
	"strings"
	"unicode"
)

// Text returns a text with each unprintable character replaced by U+FFFD. Messages
// quote files and requests, which may contain control sequences of terminals.
func Text(text string) string {
	return strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return unicode.ReplacementChar
		}
		return c
	}, text)
}
