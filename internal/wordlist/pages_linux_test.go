package wordlist

import (
	"slices"
	"testing"
)

// TestHugePagesKeepContents advises huge pages for tables that begin and end
// anywhere in a page, and checks that their contents stay.
func TestHugePagesKeepContents(t *testing.T) {
	const lines = hugeFrom/64 + 3
	table := make([]cacheLine, lines+70)
	for i := range table {
		table[i][0] = key{uint64(i), 1}
	}
	before := slices.Clone(table)
	for _, from := range []int{0, 1, 63, 64} {
		adviseHugePages(table[from : from+lines])
	}
	adviseHugePages(table[:1])
	adviseHugePages(table[:0])
	if !slices.Equal(table, before) {
		t.Error("the advice changed a table")
	}
}
