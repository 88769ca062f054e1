package rules

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestGrammarHasEveryWord holds the grammar of the manual to the parser: it has
// every word that the parser knows, and no other.
func TestGrammarHasEveryWord(t *testing.T) {
	manual, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, grammar, found := strings.Cut(string(manual), "```ebnf\n")
	if !found {
		t.Fatal("the manual has no grammar")
	}
	grammar, _, _ = strings.Cut(grammar, "```")
	known := slices.Concat(sectionNames[dictsSection:], methodNames[:], thresholdWords, outcomeWords, failWords, sourceNames(),
		[]string{ruleKeyword, "timezone", elseWord, hashedWord})
	terminal := regexp.MustCompile(`"([a-z][a-z0-9-]*)"`)
	var told []string
	for _, m := range terminal.FindAllStringSubmatch(grammar, -1) {
		told = append(told, m[1])
		if !slices.Contains(known, m[1]) {
			t.Errorf("the grammar has %q, which the parser does not know", m[1])
		}
	}
	for _, word := range known {
		if !slices.Contains(told, word) {
			t.Errorf("the grammar lacks %q", word)
		}
	}
}
