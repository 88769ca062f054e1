package main

import (
	"context"

	"github.com/koalagate/koalagate/bench/report"
)

// tables measures a table of a million rows. Lookups are not exported, so it runs the
// benchmark of package rules.
func (r *run) tables(ctx context.Context, s *report.Section) error {
	lines, err := benchmark(ctx, "BenchmarkTable")
	if err != nil {
		return err
	}
	m := lines[0].metrics
	s.Text = "A table of a million rows, in CPU time. The goals have its figures."
	r.FigureIn(" s", "a table of a million rows, loaded in", once(m["s/load"]))
	r.FigureIn(" bytes", "a table of a million rows, a row besides its text", once(m["bytes/row"]))
	r.FigureIn(" ns", "a table of a million rows, a lookup of a random row", once(m["ns/hit"]))
	return nil
}
