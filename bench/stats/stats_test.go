package stats_test

import (
	"testing"

	"github.com/koalagate/koalagate/bench/stats"
)

func TestOf(t *testing.T) {
	for name, c := range map[string]struct {
		list []float64
		want string
	}{
		"no figure":      {nil, ""},
		"one":            {[]float64{3}, "3.00 (3.00–3.00)"},
		"odd, unsorted":  {[]float64{9, 1, 2}, "2.00 (1.00–9.00)"},
		"even, unsorted": {[]float64{4, 1, 3, 2}, "2.50 (1.00–4.00)"},
	} {
		if got := stats.Of(c.list).String(); got != c.want {
			t.Errorf("%s: %q; want %q", name, got, c.want)
		}
	}
}

func TestOfKeepsTheOrderOfItsArgument(t *testing.T) {
	list := []float64{2, 1}
	stats.Of(list)
	if list[0] != 2 {
		t.Errorf("sorted to %v, which rounds of another list refer to", list)
	}
}

// The median of ratios differs from the ratio of medians where the machine is busy in
// some rounds.
func TestRatiosArePairwise(t *testing.T) {
	busy, calm := []float64{10, 20, 33}, []float64{10, 40, 30}
	for name, c := range map[string]struct {
		a, b []float64
		want string
	}{
		"pairs":             {busy, calm, "1.00 (0.50–1.10)"},
		"nothing was used":  {[]float64{1, 2}, []float64{0, 1}, "2.00 (2.00–2.00)"},
		"never used":        {[]float64{0, 0}, []float64{0, 0}, ""},
		"rounds of one end": {[]float64{3}, []float64{2, 1}, "1.50 (1.50–1.50)"},
	} {
		if got := stats.Ratios(c.a, c.b).String(); got != c.want {
			t.Errorf("%s: %q; want %q", name, got, c.want)
		}
	}
}
