package rules

import (
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
