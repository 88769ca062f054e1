package gateways_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Each fact of docs/gateways/facts.md has a test with its number, and each such test
// belongs to a fact.
func TestEveryFactHasATest(t *testing.T) {
	text, err := os.ReadFile("../../docs/gateways/facts.md")
	if err != nil {
		t.Fatal(err)
	}
	stated := numbers(regexp.MustCompile(`(?m)^- \*\*(GW-\d+)\*\* `), string(text))
	if len(stated) < 50 {
		t.Errorf("facts.md has %d facts of the form `- **GW-1** …`; want at least 50", len(stated))
	}
	tested := map[string]int{}
	for _, source := range testSources(t) {
		for fact, times := range numbers(regexp.MustCompile(`t\.Run\("(GW-\d+) `), source) {
			tested[fact] += times
		}
	}
	for fact, times := range stated {
		if times != 1 || tested[fact] != 1 {
			t.Errorf("%s is stated %d times and tested %d times; want once each", fact, times, tested[fact])
		}
	}
	for fact := range tested {
		if stated[fact] == 0 {
			t.Errorf("%s has a test, but is not in docs/gateways/facts.md", fact)
		}
	}
}

// testSources returns the texts of the tests of gateways.
func testSources(t *testing.T) (texts []string) {
	t.Helper()
	for _, pattern := range []string{"../*/*_test.go", "../internal/rig/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(text))
		}
	}
	return texts
}

// numbers counts the matches of the expression's group.
func numbers(e *regexp.Regexp, text string) map[string]int {
	found := map[string]int{}
	for _, match := range e.FindAllStringSubmatch(text, -1) {
		found[match[1]]++
	}
	return found
}
