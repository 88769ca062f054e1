package report_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/bench/report"
	"github.com/koalagate/koalagate/bench/stats"
)

// begun is when the runs of the tests began.
var begun = time.Date(2026, 11, 28, 18, 30, 0, 0, time.UTC)

// waits is why the goals of the reports may be missed.
var waits = &report.Reason{Holds: "It waits.", Tried: "Patience."}

// compose returns the report of a run with two figures, the first of which has a goal.
func compose(t *testing.T, run report.Run, calls float64, earlier ...*report.Page) string {
	t.Helper()
	part := new(report.Part)
	part.Chapter("Stores", "In µs.")
	part.Add(report.Section{Name: "one counter", Tables: []report.Table{
		{Columns: []string{"", "calls/s"}, Rows: [][]string{{"in process", "22100"}, {"Redis", "14593"}}},
	}, Note: "Twice as fast."})
	part.Figure("one counter, calls/s relative to envoyproxy/ratelimit", &stats.Value{Median: calls, Least: calls - 1, Most: calls + 1})
	part.FigureIn(" µs", "time", &stats.Value{Median: 3, Least: 2, Most: 4})
	nothing := stats.Of(nil)
	part.Figure("without a round", &nothing)
	part.Figure("left out", nil)
	goals := []report.Goal{
		report.AtLeast("one counter, calls/s relative to envoyproxy/ratelimit", 2, 3).Because(waits), report.AtMost("left out", 1, 0.5).Because(waits),
	}
	text, err := report.Compose(&run, goals, []*report.Part{part}, earlier)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func parse(t *testing.T, text string) *report.Page {
	t.Helper()
	p, err := report.Parse(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return p
}

func TestReportIsReadAsWritten(t *testing.T) {
	p := parse(t, compose(t, report.Run{Commit: "abc1234", Begun: begun, Machine: "2 × Fast, linux/amd64"}, 2.5))
	for _, c := range []struct{ section, row, column, want string }{
		{"Run", "commit", "of this report", "abc1234"},
		{"Run", "begun", "of this report", "2026-11-28 18:30 UTC"},
		{"one counter", "Redis", "calls/s", "14593"},
		{"Goals", "one counter, calls/s relative to envoyproxy/ratelimit", "measured", "2.50 (1.50–3.50)"},
		{"Goals", "one counter, calls/s relative to envoyproxy/ratelimit", "must", "≥ 2"},
		{"Goals", "one counter, calls/s relative to envoyproxy/ratelimit", "verdict", "met"},
		{"Goals", "left out", "measured", "not measured"},
		{"Figures without a goal", "time", "measured", "3.00 (2.00–4.00) µs"},
	} {
		if got, found := p.Cell(c.section, c.row, c.column); !found || got != c.want {
			t.Errorf("%s | %s | %s: %q, %v; want %q", c.section, c.row, c.column, got, found, c.want)
		}
	}
	if _, found := p.Cell("one counter", "Redis", "p99"); found {
		t.Error("a column that the report lacks has a cell")
	}
	if _, measured := p.Measured("left out"); measured {
		t.Error("a figure that was not measured has a value")
	}
}

// A report says why goals are missed, once for all with the same reason, and names no goal that is met.
func TestReasons(t *testing.T) {
	part := new(report.Part)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		part.Figure(name, &stats.Value{Median: 1, Least: 1, Most: 1})
	}
	run := report.Run{Commit: "a", Begun: begun, Machine: "m"}
	text, err := report.Compose(&run, []report.Goal{
		report.AtMost("a", 0.5, 0.5).Because(waits),
		report.AtMost("b", 0.5, 0.5),
		report.AtMost("c", 1, 1).Because(waits),
		report.AtMost("d", 0.5, 0.5).Because(waits),
		report.AtMost("not measured", 0.5, 0.5).Because(waits),
		report.AtMost("e", 0.5, 0.5).Because(&report.Reason{Holds: "It works."}),
	}, []*report.Part{part}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(text, "this run.\n\n")
	list, _, _ = strings.Cut(list, "\n\n")
	if want := "* **a; d**: It waits. Tried: Patience.\n* **b**: not known.\n* **e**: It works.\n"; list != want {
		t.Errorf("%s\nwant %s", list, want)
	}
	if met := compose(t, run, 2.5); strings.Contains(met, report.ReasonsSection) {
		t.Errorf("a report that misses nothing gives reasons:\n%s", met)
	}
}

func TestVerdicts(t *testing.T) {
	for calls, want := range map[float64]string{3: "met, also stretch", 2: "met", 1.99: report.Missed} {
		p := parse(t, compose(t, report.Run{Commit: "a", Begun: begun, Machine: "m"}, calls))
		if got, _ := p.Cell("Goals", "one counter, calls/s relative to envoyproxy/ratelimit", "verdict"); got != want {
			t.Errorf("%v: %q; want %q", calls, got, want)
		}
	}
}

// A ratio to another program depends on the machine: all full reports that are kept count.
func TestRatiosToOtherProgramsHaveTheRangeOfKeptReports(t *testing.T) {
	other := parse(t, compose(t, report.Run{Commit: "old", Begun: begun.AddDate(0, 0, -1), Machine: "other"}, 1.4))
	rough := parse(t, compose(t, report.Run{Commit: "rough", Begun: begun, Machine: "other", Short: true}, 9))
	p := parse(t, compose(t, report.Run{Commit: "new", Begun: begun, Machine: "this"}, 10.5, rough, other))
	var got []string
	for _, t := range p.Tables[report.PeerSection] {
		for _, row := range t.Rows {
			got = append(got, strings.Join(row, ": "))
		}
	}
	want := []string{
		"one counter, calls/s: 10.50: 1.40: 10.50",
		"2026-11-28 18:30 UTC: new: this", "2026-11-27 18:30 UTC: old: other",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q; want %q", got, want)
	}
}

func TestTwoSectionsOfOneNameAreRefused(t *testing.T) {
	part := &report.Part{Sections: []report.Section{{Name: "twice"}, {Name: "twice"}}}
	if _, err := report.Compose(&report.Run{}, nil, []*report.Part{part}, nil); err == nil {
		t.Error("a quoted cell would have two meanings")
	}
}

func TestKeepMovesTheReportBefore(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "docs/reports"), 0o700); err != nil {
		t.Fatal(err)
	}
	keep := func(text string) {
		t.Helper()
		if err := report.Keep(root, text); err != nil {
			t.Fatal(err)
		}
	}
	keep(compose(t, report.Run{Commit: "rough", Begun: begun, Machine: "m", Short: true}, 1))
	keep(compose(t, report.Run{Commit: "first+", Begun: begun, Machine: "m"}, 2))
	keep(compose(t, report.Run{Commit: "second", Begun: begun.Add(time.Hour), Machine: "m"}, 3))
	kept, err := report.ReadKept(root)
	if err != nil {
		t.Fatal(err)
	}
	var commits []string
	for _, p := range kept {
		commit, _ := p.Cell(report.RunSection, "commit", "of this report")
		commits = append(commits, commit)
	}
	if want := []string{"second", "first+"}; !slices.Equal(commits, want) {
		t.Errorf("kept reports are of %q; want %q: rough ones are replaced", commits, want)
	}
	text, err := os.ReadFile(filepath.Join(root, report.Earlier, "2026-11-28-1830-first.md"))
	if err != nil || !strings.Contains(string(text), "](../../performance.md)") {
		t.Errorf("%v; want a report whose links lead to pages:\n%s", err, text)
	}
}

func TestInvalidReports(t *testing.T) {
	valid := compose(t, report.Run{Commit: "a", Begun: begun, Machine: "m"}, 2)
	for name, text := range map[string]string{
		"empty":           "",
		"without commit":  strings.Replace(valid, "| commit |", "| x |", 1),
		"a cell too many": strings.Replace(valid, "| Redis | 14593 |", "| Redis | 14593 | 1 |", 1),
	} {
		if _, err := report.Parse(text); err == nil {
			t.Errorf("%s: read", name)
		}
	}
}
