package main

import (
	"strings"
	"testing"
	"unicode"
)

// TestShownValuesAreOneWordThatNoTerminalObeys: values come from clients.
func TestShownValuesAreOneWordThatNoTerminalObeys(t *testing.T) {
	for value, want := range map[string]string{
		"ann":            "ann",
		"严禁":             "严禁",
		"":               `""`,
		"a b":            `"a b"`,
		`"`:              `"\""`,
		"\xff\xfe":       `"\xff\xfe"`,
		"\x1b[2J":        `"\x1b[2J"`,
		"\u202e":         `"\u202e"`,
		"\ufffd":         "\ufffd", // as it was sent, and told from a byte that is no character
		"a\nverdict: no": `"a\nverdict: no"`,
	} {
		if got := shownValue(value); got != want {
			t.Errorf("%q is shown as %s, want %s", value, got, want)
		}
	}
}

// TestExplanationsHoldNothingThatATerminalObeys puts control characters into
// every text that is not the program's own.
func TestExplanationsHoldNothingThatATerminalObeys(t *testing.T) {
	const evil = "a\x1b[31m\u202e\xff\r"
	params := []explainedParam{{evil, evil, evil}}
	var b strings.Builder
	printExplanation(&b, &explanation{
		Request: &explainedRequest{Door: "extauthz", Method: evil, Target: evil},
		Params:  params,
		Rules: []explainedRule{
			{Return: 1, File: evil, Outcome: outcomeNotMet, Failed: []explainedFault{{Condition: evil, Name: "n", Value: evil}}},
			{Return: 2, File: evil, Outcome: outcomePasses, CountedFor: []explainedParam{{Name: "n", Value: evil}}},
		},
		Decision: &explainedDecision{Verdict: "allow", Reason: evil},
	}, true, false)
	for _, r := range strings.ReplaceAll(b.String(), "\n", "") {
		if !unicode.IsPrint(r) {
			t.Fatalf("the text holds %q:\n%q", r, b.String())
		}
	}
}
