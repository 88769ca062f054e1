package rules

import (
	"fmt"
	"strings"

	"github.com/koalagate/koalagate/internal/spelling"
)

// suggest returns the candidate that was probably meant by word, "" if none is similar:
// at most a third of the letters may be wrong, and no more than two.
func suggest(word string, candidates []string) string {
	if len(word) > 64 || len(candidates) > 1000 { // bounds the cost of a finding
		return ""
	}
	return spelling.Nearest(word, candidates, min(len(word)/3, 2))
}

// oneOf returns words as a list in a sentence: `a, b or c`.
func oneOf(words []string) string {
	last := len(words) - 1
	if last <= 0 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

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
