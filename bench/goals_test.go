package main

import "testing"

func TestGoalsAreOnePerFigureAndStretchIsStricter(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range goals {
		if seen[g.Figure] {
			t.Errorf("%s: two goals", g.Figure)
		}
		seen[g.Figure] = true
		if g.AtMost && g.Stretch > g.Must || !g.AtMost && g.Stretch < g.Must {
			t.Errorf("%s: stretch %v is easier than %v", g.Figure, g.Stretch, g.Must)
		}
	}
}
