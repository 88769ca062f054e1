package rules

import (
	"slices"
	"testing"
)

// TestTablesInHugePages asks for huge pages for tables that begin and end
// anywhere in a page: what is in them stays.
func TestTablesInHugePages(t *testing.T) {
	const lines = hugeFrom/64 + 3
	room := make([]cacheLine, lines+70)
	for i := range room {
		room[i][0] = key{uint64(i), 1}
	}
	before := slices.Clone(room)
	for _, from := range []int{0, 1, 63, 64} {
		inHugePages(room[from : from+lines])
	}
	inHugePages(room[:1])
	inHugePages(room[:0])
	if !slices.Equal(room, before) {
		t.Error("a table has changed")
	}
}
