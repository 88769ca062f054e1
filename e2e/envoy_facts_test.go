package e2e_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Each fact of docs/gateways/facts.md is shown by the test of its number, and
// each such test shows a fact.
func TestEveryFactIsShown(t *testing.T) {
	text, err := os.ReadFile("../docs/gateways/facts.md")
	if err != nil {
		t.Fatal(err)
	}
	stated := numbers(regexp.MustCompile(`(?m)^- \*\*(GW-\d+)\*\* `), string(text))
	if len(stated) < 50 {
		t.Errorf("facts.md states %d facts of the form `- **GW-1** …`; there are more", len(stated))
	}
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
		for fact, times := range numbers(regexp.MustCompile(`t\.Run\("(GW-\d+) `), string(source)) {
			shown[fact] += times
		}
	}
	for fact, times := range stated {
		if times != 1 || shown[fact] != 1 {
			t.Errorf("%s is stated %d times and shown %d times; want once each", fact, times, shown[fact])
		}
	}
	for fact := range shown {
		if stated[fact] == 0 {
			t.Errorf("%s is shown, and stated nowhere in docs/gateways/facts.md", fact)
		}
	}
}

// numbers counts what the group of the expression finds.
func numbers(e *regexp.Regexp, text string) map[string]int {
	found := map[string]int{}
	for _, match := range e.FindAllStringSubmatch(text, -1) {
		found[match[1]]++
	}
	return found
}
