package rules

import (
	"fmt"
	"strings"
)

// halfWidthOf maps the characters that Chinese and Japanese keyboards produce to
// the language's. The full-width forms of ASCII are computed.
var halfWidthOf = map[rune]rune{'【': '[', '】': ']', '“': '"', '”': '"', '‘': '"', '’': '"', '、': ',', '。': '.', '\u3000': ' '}

// halfWidth returns the character of the language that r is a full-width form of, 0 if
// it is none.
func halfWidth(r rune) rune {
	if '！' <= r && r <= '～' {
		return r - '！' + '!'
	}
	return halfWidthOf[r]
}

// halfWidthHint returns the hint about the first full-width form in text of one of
// chars (of any character if chars is empty), "" if there is none.
func halfWidthHint(text, chars string) string {
	for _, r := range text {
		switch half := halfWidth(r); {
		case half == 0 || chars != "" && !strings.ContainsRune(chars, half):
		case r == '\u3000':
			return "replace the full-width blank with an ASCII blank"
		default:
			return fmt.Sprintf("%c is a full-width character; write %c", r, half)
		}
	}
	return ""
}
