// Package printable keeps characters that terminals interpret out of messages, and numbers things
// in them.
package printable

import (
	"fmt"
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

// Count returns a number of things with their noun: "1 rule", "2 rules", "0 entries". The noun is
// in the singular.
func Count[N int | int64 | uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, isY := strings.CutSuffix(noun, "y"); isY {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
