package e2e_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// Each fact of docs/gateways/facts-http.md is shown by the test of its number,
// and each such test shows a fact.
func TestEveryHTTPFactIsShown(t *testing.T) {
	text, err := os.ReadFile("../docs/gateways/facts-http.md")
	if err != nil {
		t.Fatal(err)
	}
	stated := numbers(regexp.MustCompile(`(?m)^- \*\*GW-(\d+)\*\* `), string(text))
	maps.Copy(stated, numbers(regexp.MustCompile(`\| GW-(\d+) `), string(text)))
	shown := map[string]int{}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(shown, numbers(regexp.MustCompile(`showFact\(t, (\d+),`), string(source)))
		for first := range numbers(regexp.MustCompile(`first: +(\d+),`), string(source)) {
			number, err := strconv.Atoi(first)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 11 { // the stories that all gateways have in common
				shown[strconv.Itoa(number+i)]++
			}
		}
	}
	if len(stated) < 40 {
		t.Errorf("facts-http.md states %d facts; there are more", len(stated))
	}
	if stated, shown := slices.Sorted(maps.Keys(stated)), slices.Sorted(maps.Keys(shown)); !slices.Equal(stated, shown) {
		t.Errorf("stated %v\nshown  %v", stated, shown)
	}
	for fact, times := range stated {
		if times != 1 || shown[fact] != 1 {
			t.Errorf("GW-%s is stated %d times and shown %d times; want once each", fact, times, shown[fact])
		}
	}
}
