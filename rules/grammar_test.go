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
		unitNames(&spanUnits), unitNames(&countUnits), []string{"T", ruleKeyword, "timezone", elseWord, lowerWord, hashedWord, hasWord, oidcWord}, jwtWords, jwtPlaces[:],
		[]string{beforeWord, afterWord, nowWord, paramWord, byWord, unlimitedWord, epochWord, "minute", "hour", "day", "week", "month", "year"})
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

// TestManualListsEverySource checks that the manual lists the sources of [params] as they are
// declared, with their arguments.
func TestManualListsEverySource(t *testing.T) {
	manual, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(manual), "**Sources** are ")
	if !found {
		t.Fatal("the manual has no list of sources")
	}
	list, _, _ = strings.Cut(list, "\n\n")
	for i := range sourceWords {
		w := &sourceWords[i]
		if w.name == "" {
			t.Errorf("the source %d has no name", i)
		}
		want := "`" + strings.Join(append([]string{w.name}, w.words...), " ") + "`"
		if SourceKind(i) == FromTable {
			want = "`table`" // the manual has a chapter about tables
		}
		if !w.quoted && !strings.Contains(list, want) {
			t.Errorf("the list of sources in the manual lacks %s", want)
		}
	}
}

// A kind that a program made up is no source.
func TestUnknownSourceKind(t *testing.T) {
	s := ParamSource{Kind: 200}
	if s.IsLate() || isFromClient(s) || s.Kind.name() != "" || s.String() != "source(200)" {
		t.Errorf("the source %s has the name %q", s, s.Kind.name())
	}
}
