package rules

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestGrammarHasEveryWord checks that the grammar of the manual has every word that
// the parser accepts, and no other.
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
	known := slices.Concat(sectionNames[dictsSection:], methodNames, thresholdNames, outcomeNames, failWords, sourceNames(),
		unitNames(&spanUnits), unitNames(&countUnits), []string{"T", ruleKeyword, "timezone", elseWord, hashedWord},
		[]string{paramWord, byWord, unlimitedWord, epochWord, "minute", "hour", "day", "week", "month", "year"})
	terminal := regexp.MustCompile(`"([A-Za-z][a-z0-9-]*)"`)
	var listed []string
	for _, m := range terminal.FindAllStringSubmatch(grammar, -1) {
		listed = append(listed, m[1])
		if !slices.Contains(known, m[1]) {
			t.Errorf("the grammar has %q, which the parser does not accept", m[1])
		}
	}
	for _, word := range known {
		if !slices.Contains(listed, word) {
			t.Errorf("the grammar lacks %q", word)
		}
	}
}

func unitNames(units *units) []string {
	names := make([]string, len(units.list))
	for i, u := range units.list {
		names[i] = u.name
	}
	return names
}
