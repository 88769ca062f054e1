package rules

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// expects matches as the manual defines it, character by character, in exponential time.
func expects(pattern, value []string) bool {
	switch {
	case len(pattern) == 0:
		return len(value) == 0
	case pattern[0] == string([]byte{anyText}):
		return expects(pattern[1:], value) || len(value) > 0 && expects(pattern, value[1:])
	case len(value) == 0:
		return false
	}
	return (pattern[0] == string([]byte{anyCharacter}) || pattern[0] == value[0]) && expects(pattern[1:], value[1:])
}

// characters cuts a text into code points, and into bytes where it is not UTF-8.
func characters(text string) []string {
	var list []string
	for text != "" {
		_, size := utf8.DecodeRuneInString(text)
		list, text = append(list, text[:size]), text[size:]
	}
	return list
}

// FuzzGlob compares patterns with the definition.
func FuzzGlob(f *testing.F) {
	for _, g := range []string{"a*b", "*?a*", "??*", "a?*?é", "*ab?b*b", "€*", "*a?a?b*", ""} {
		for _, v := range []string{"ab", "aab", "é€", "a\xffb", "\xe2\x82", "abab1b", ""} {
			f.Add(g, v)
		}
	}
	f.Fuzz(func(t *testing.T, written, value string) {
		if !utf8.ValidString(written) || len(written) > 12 || len(value) > 16 {
			return
		}
		pattern := strings.NewReplacer("*", string([]byte{anyText}), "?", string([]byte{anyCharacter})).Replace(written)
		g := newGlobs([]string{pattern})
		if got, want := g.match(value), expects(characters(pattern), characters(value)); got != want {
			t.Fatalf("%q matches %q: %v, want %v; it is %+v", written, value, got, want, g)
		}
	})
}

func TestGlobsMatchAsDefined(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	pick := func(from []string, n int) string {
		var b strings.Builder
		for range random.IntN(n) {
			b.WriteString(from[random.IntN(len(from))])
		}
		return b.String()
	}
	for _, c := range []struct {
		conditions, patterns int
		suffix               string // of each pattern
		matches              int    // at least
	}{
		{40_000, 1, "", 2_000},
		{4_000, 25, "a\xfe", 1_000}, // an automaton of several words
	} {
		matches := 0
		for range c.conditions {
			var patterns []string
			for range c.patterns {
				patterns = append(patterns, pick([]string{"a", "a", "b", "é", "\xff", "\xff", "\xfe"}, 10)+c.suffix)
			}
			value := pick([]string{"a", "b", "a", "é", "€", "\xff", "\xa9", "\xc3"}[:2+random.IntN(7)], 12)
			g := newGlobs(patterns)
			got := g.match(value)
			if want := slices.ContainsFunc(patterns, func(pattern string) bool {
				return expects(characters(pattern), characters(value))
			}); got != want {
				t.Fatalf("%q match %q: %v, want %v; they are %+v", patterns, value, got, want, g)
			}
			if got {
				matches++
			}
		}
		if matches < c.matches || matches > c.conditions-c.matches {
			t.Errorf("%d of %d conditions of %d patterns match", matches, c.conditions, c.patterns)
		}
	}
}

// A pattern that were tried in all ways would not end within the age of the universe.
func TestHostileValuesOfGlobs(t *testing.T) {
	set := ruleSet(t, "x ~ "+strings.Repeat("*a?", 40)+"*b*", "x ~ *"+strings.Repeat("a?", 40)+"b*")
	p := MakeParams(map[string]string{"x": strings.Repeat("a", 1<<16)})
	for _, r := range set.Rules {
		c := r.Conditions[0]
		if allocations := testing.AllocsPerRun(1, func() {
			if c.Holds(p, 0) {
				t.Errorf("%s holds", c)
			}
		}); allocations != 0 {
			t.Errorf("%s: %v allocations", c, allocations)
		}
	}
}

// tenGlobs are patterns of a list of crawlers.
const tenGlobs = `agent ~ "*gptbot*","*claudebot*","*ccbot*","*bytespider*","*ahrefsbot*","*semrush?ot*","curl/*","python-requests/?.*","*headless*chrome*","*scrapy*"`

// BenchmarkTenGlobs matches ten patterns with a value of 128 bytes that none of them
// matches: want about 1 µs or less.
func BenchmarkTenGlobs(b *testing.B) {
	agent := "mozilla/5.0 (x11; linux x86_64) applewebkit/537.36 (khtml, like gecko) chrome/131.0.0.0 safari/537.36 edg/131.0.2903.86 headlesss"[:128]
	same := strings.Repeat("a", 128)
	ten := func(pattern string) string {
		return "agent ~ " + strings.TrimSuffix(strings.Repeat(pattern+",", 10), ",")
	}
	for _, c := range []struct{ name, condition, value string }{
		{"usual", tenGlobs, agent},
		{"of texts", strings.NewReplacer("?", "").Replace(tenGlobs), agent},
		{"a character after text", ten("*a?a?a?b*"), same},
		{"a character after text of two bytes", ten("*é?é?é?b*"), strings.Repeat("é", 64)},
		{"many texts", ten(strings.Repeat("*a", 20) + "*b*"), same},
		{"a long text", ten("*aaaaaaaaaaaaaaaab*"), same},
		{"many characters", ten(strings.Repeat("?a", 20) + "*b*"), same},
		{"mixed", `agent ~ "*gptbot*","*o?e?x*","curl/*","*a*e*i*o*u*","*bot/?.?*","*ahrefs*","?????la*x","*headless*chrome*x","*semrush?ot*","*scrapy*"`, agent},
	} {
		b.Run(c.name, func(b *testing.B) {
			condition := ruleSet(b, c.condition).Rules[0].Conditions[0]
			v := value{text: c.value}
			b.ReportAllocs()
			for b.Loop() {
				if condition.holds(&v, 0) {
					b.Fatal(c.value + " matches")
				}
			}
		})
	}
}
