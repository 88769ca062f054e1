package rules

import (
	"fmt"
	"strings"
)

// halfWidthOf are the signs that Chinese and Japanese keyboards write for those
// of the language, beside the full-width forms of ASCII.
var halfWidthOf = map[rune]rune{'【': '[', '】': ']', '“': '"', '”': '"', '‘': '"', '’': '"', '、': ',', '。': '.', '\u3000': ' '}

// halfWidth is the sign of the language that r is a full-width form of, 0 for
// any other.
func halfWidth(r rune) rune {
	if '！' <= r && r <= '～' {
		return r - '！' + '!'
	}
	return halfWidthOf[r]
}

// halfWidthHint says what to write for the first full-width sign of text that is
// among signs (any if there are none), "" without one.
func halfWidthHint(text, signs string) string {
	for _, r := range text {
		switch half := halfWidth(r); {
		case half == 0 || signs != "" && !strings.ContainsRune(signs, half):
		case r == '\u3000':
			return "there is a full-width blank; write a blank of ASCII"
		default:
			return fmt.Sprintf("%c is a full-width sign; write %c", r, half)
		}
	}
	return ""
}
