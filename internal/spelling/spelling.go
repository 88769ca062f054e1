// Package spelling suggests corrections of misspelled words.
package spelling

import "strings"

// Suggest returns the candidate that word probably misspells, or "" if none is
// similar. A third of the letters may be wrong, and always two.
func Suggest(word string, candidates []string) string {
	return Nearest(word, candidates, max(2, len(word)/3))
}

// Nearest returns the candidate with the fewest wrong letters in word, or "" if all
// have more than most. A candidate that differs only in case comes first. The cost is
// proportional to the lengths of word and of all candidates.
func Nearest(word string, candidates []string, most int) string {
	best, least := "", most+1
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
