package gateways_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// Each fact of docs/gateways/facts-http.md has a test with its number, and each such
// test belongs to a fact.
func TestEveryHTTPFactHasATest(t *testing.T) {
	text, err := os.ReadFile("../../docs/gateways/facts-http.md")
	if err != nil {
		t.Fatal(err)
	}
	stated := numbers(regexp.MustCompile(`(?m)^- \*\*GW-(\d+)\*\* `), string(text))
	maps.Copy(stated, numbers(regexp.MustCompile(`\| GW-(\d+) `), string(text)))
	tested := map[string]int{}
	for _, source := range testSources(t) {
		maps.Copy(tested, numbers(regexp.MustCompile(`TestFact\(t, (\d+),`), source))
		for first := range numbers(regexp.MustCompile(`First: +(\d+),`), source) {
			number, err := strconv.Atoi(first)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 11 { // the tests that all gateways have in common
				tested[strconv.Itoa(number+i)]++
			}
		}
	}
	if len(stated) < 40 {
		t.Errorf("facts-http.md has %d facts; want at least 40", len(stated))
	}
	if stated, tested := slices.Sorted(maps.Keys(stated)), slices.Sorted(maps.Keys(tested)); !slices.Equal(stated, tested) {
		t.Errorf("stated %v\ntested %v", stated, tested)
	}
	for fact, times := range stated {
		if times != 1 || tested[fact] != 1 {
			t.Errorf("GW-%s is stated %d times and tested %d times; want once each", fact, times, tested[fact])
		}
	}
}
