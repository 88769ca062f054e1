package trial

import (
	"strconv"
	"testing"

	"github.com/koalagate/koalagate/rules"
)

// A refusal of a new identity, with as many as a rule can have.
func BenchmarkNewIdentity(b *testing.B) {
	var c counts
	allowed, refused := outcome{}, outcome{verdict: verdict{refused: true, rule: &rules.Rule{Return: 201}}}
	n := 0
	name := func(*outcome) string { n++; return strconv.Itoa(n) }
	for range maxIdentities {
		c.add(&allowed, &refused, name)
	}
	b.ReportAllocs()
	for b.Loop() {
		c.add(&allowed, &refused, name)
	}
}
