package whatif

import (
	"strconv"
	"testing"

	"github.com/koalagate/koalagate/rules"
)

// A refusal of a new identity, with as many as a rule can have.
func BenchmarkNewIdentity(b *testing.B) {
	var t Tally
	allowed, refused := Outcome{}, Outcome{Refused: true, Rule: &rules.Rule{Return: 201}}
	n := 0
	name := func(Outcome) string { n++; return strconv.Itoa(n) }
	for range defaultIdentities {
		t.Add(allowed, refused, name)
	}
	b.ReportAllocs()
	for b.Loop() {
		t.Add(allowed, refused, name)
	}
}
