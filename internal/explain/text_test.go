package explain

import (
	"strings"
	"testing"
	"unicode"
)

// TestTextHasNoControlCharacters puts control characters into all strings that
// come from files and clients.
func TestTextHasNoControlCharacters(t *testing.T) {
	const evil = "a\x1b[31m\u202e\xff\r"
	params := []Param{{evil, evil, evil}}
	var b strings.Builder
	r := &Report{
		Request: &Request{Door: "extauthz", Method: evil, Target: evil},
		Params:  params,
		Absent:  params,
		Rules: []Rule{
			{Return: 1, File: evil, Outcome: NotMet, Failed: []Condition{{Condition: evil, Name: "n", Value: evil}}},
			{Return: 2, File: evil, Outcome: Passes, CountedFor: []Param{{Name: "n", Value: evil}}},
		},
		Decision: &Decision{Verdict: "allow", Reason: evil},
	}
	r.WriteText(&b, TextOptions{All: true})
	for _, c := range strings.ReplaceAll(b.String(), "\n", "") {
		if !unicode.IsPrint(c) {
			t.Fatalf("the text has %q:\n%q", c, b.String())
		}
	}
}

func TestTextColors(t *testing.T) {
	r := &Report{
		Rules:    []Rule{{Return: 1, Outcome: NotMet}, {Return: 2, Outcome: Decides, Method: "direct", Limit: "direct", Cost: 1}, {Return: 3, Outcome: Passes}},
		Decision: &Decision{Verdict: "deny"},
	}
	var b strings.Builder
	r.WriteText(&b, TextOptions{Color: true})
	for _, want := range []string{"\x1b[2mrule 1 ", "\x1b[33mrule 2 ", "\nrule 3 ", "verdict: \x1b[31mdeny\x1b[0m"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in %q", want, b.String())
		}
	}
}
