package spelling_test

import (
	"testing"

	"github.com/koalagate/koalagate/internal/spelling"
)

func TestNearest(t *testing.T) {
	words := []string{"count", "token", "timeout", "Time"}
	for _, test := range []struct {
		word string
		most int
		want string
	}{
		{"cuont", 1, "count"}, // swapped neighbors are one wrong letter
		{"cont", 1, "count"},
		{"counts", 1, "count"},
		{"coXXt", 1, ""},
		{"coXXt", 2, "count"},
		{"TOKEN", 0, "token"},
		{"time", 2, "Time"},
		{"timeot", 2, "timeout"},
		{"", 2, ""},
		{"xyz", 2, ""},
	} {
		if got := spelling.Nearest(test.word, words, test.most); got != test.want {
			t.Errorf("Nearest(%q, %d) = %q; want %q", test.word, test.most, got, test.want)
		}
	}
}

func TestSuggestToleratesAThirdOfTheLettersButAtLeastTwo(t *testing.T) {
	for word, want := range map[string]string{
		"ud": "uid", "u": "uid", "xyzz": "", "maximum_identites": "max_identities",
	} {
		if got := spelling.Suggest(word, []string{"uid", "max_identities"}); got != want {
			t.Errorf("Suggest(%q) = %q; want %q", word, got, want)
		}
	}
}
