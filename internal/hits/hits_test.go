package hits

import (
	"math"
	"math/big"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "600": 600, "007": 7, "+5": 5, " 12\t": 12, "0e99": 0, "0.000": 0,
		"2e+09": 2_000_000_000, "2E9": 2_000_000_000, "1e2": 100, "1.5e1": 15, "1500e-2": 15, "600.00": 600, "6.": 6, ".5e1": 5,
		"123456789012345": 123_456_789_012_345, "1.23456789012345e+14": 123_456_789_012_345,
		"1e15": Max, "1000000000000000": Max, "0.00001e20": Max, "1" + strings.Repeat("0", 100) + "e-98": 100,
	} {
		if got, ok := Parse(text); !ok || got != want {
			t.Errorf("%q: %d, %t; want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{
		"", " ", "-5", "-0", "junk", "1.5", "1e-1", "0.99999999999999999999", "1000000000000000.1", "1000000000000001", "1e16", "9e15",
		"1e", "e5", ".", ".e1", "+", "++1", "+-1", "1e2.0", "0x10", "1_000", "1,000", "1 000", "NaN", "Inf", "infinity", "٣", "1e99999999999999999999",
		"1e9223372036854775807", "1e-9223372036854775808", "2\x00",
	} {
		if got, ok := Parse(text); ok {
			t.Errorf("%q: %d; want no number", text, got)
		}
	}
}

// A number above Max differs from a text that is no number.
func TestParseAny(t *testing.T) {
	for text, want := range map[string]int64{
		"600": 600, "1e15": Max, "1000000000000001": Max + 1, "9e15": Max + 1, "1e300": Max + 1, "18446744073709551617": Max + 1,
		"1e99999999999999999999": Max + 1, "1e9223372036854775807": Max + 1, "0e99999999999999999999": 0,
	} {
		if got, ok := ParseAny(text); !ok || got != want {
			t.Errorf("%q: %d, %t; want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "-5", "-1e300", "junk", "1.5", "1e-99999999999999999999", "Inf", "1000000000000000.1"} {
		if got, ok := ParseAny(text); ok {
			t.Errorf("%q: %d; want no number", text, got)
		}
	}
}

// FuzzParse compares numbers with math/big, which reads decimal fractions
// exactly.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"600", "2e+09", "1.5", "0.99999999999999999999", "1e15", "-5", "1e-400", "1500e-2", "."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := Parse(text)
		if ok && (got < 0 || got > Max) {
			t.Fatalf("%q: %d; want 0 … %d", text, got, int64(Max))
		}
		plain := strings.TrimSpace(text)
		if len(plain) > 40 || plain == "" || strings.Trim(plain, "0123456789.eE+-") != "" {
			return
		}
		if i := strings.IndexAny(plain, "eE"); i >= 0 && len(plain)-i > 5 {
			return // math/big would compute a number of as many digits
		}
		exact, is := new(big.Rat).SetString(plain)
		isHits := is && exact.IsInt() && !strings.HasPrefix(plain, "-") && exact.Cmp(new(big.Rat).SetInt64(Max)) <= 0
		if ok != isHits || ok && exact.Cmp(new(big.Rat).SetInt64(got)) != 0 {
			t.Fatalf("%q: %d, %t; want %v", text, got, ok, exact)
		}
	})
}

func TestMaxIsExactInADouble(t *testing.T) {
	if float64(Max) != math.Trunc(float64(Max)) || Max > 1<<53 {
		t.Errorf("%d is not exact in a double, which Redis counts in", int64(Max))
	}
}
