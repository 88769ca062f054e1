package rules

import "strings"

// suggest returns the candidate that was probably meant by word, "" if none is similar:
// at most a third of the letters may be wrong, and no more than two.
func suggest(word string, candidates []string) string {
	if len(word) > 64 || len(candidates) > 1000 { // bounds the cost of a finding
		return ""
	}
	best, least := "", min(len(word)/3, 2)+1
	for _, c := range candidates {
		if strings.EqualFold(c, word) {
			return c
		}
		if d := distance(word, c, least); d < least {
			best, least = c, d
		}
	}
	return best
}

// distance returns the number of letters to insert, delete, replace or swap with their
// neighbor to turn a into b, or limit if it is not below limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			wrong := 1
			if a[i-1] == b[j-1] {
				wrong = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+wrong)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}

// oneOf returns words as a list in a sentence: `a, b or c`.
func oneOf(words []string) string {
	last := len(words) - 1
	if last <= 0 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
