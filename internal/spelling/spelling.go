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
	var r rows
	for _, c := range candidates {
		if strings.EqualFold(c, word) {
			return c
		}
		if d := r.distance(word, c, least); d < least {
			best, least = c, d
		}
	}
	return best
}

// rows are the last three rows of the table of distances between the beginnings of two words.
type rows struct{ before, above, row []int }

// grow makes room for rows of n numbers.
func (r *rows) grow(n int) {
	if len(r.row) < n {
		r.before, r.above, r.row = make([]int, n), make([]int, n), make([]int, n)
	}
}

// distance returns the number of letters to insert, delete, replace or swap with their
// neighbor to turn a into b, or limit if it is not below limit. It computes the distances that may
// be below limit alone, those near the diagonal, and ends once no distance of a row is.
func (r *rows) distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	r.grow(len(b) + 1)
	before, above, row := r.before, r.above, r.row
	for j := range min(len(b), limit) + 1 {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		first, last := max(1, i-limit+1), min(len(b), i+limit-1)
		row[first-1] = limit
		if first == 1 {
			row[0] = i
		}
		least := row[first-1]
		for j := first; j <= last; j++ {
			wrong := 1
			if a[i-1] == b[j-1] {
				wrong = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+wrong)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
			least = min(least, row[j])
		}
		if last < len(b) {
			row[last+1] = limit
		}
		if least >= limit {
			return limit
		}
		before, above, row = above, row, before
	}
	return min(above[len(b)], limit)
}
