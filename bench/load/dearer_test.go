package main

import (
	"strings"
	"testing"
)

// rounds returns figures with these costs in each round.
func rounds(samples ...sample) *figures { return &figures{samples: samples} }

func TestTableNamesWhatBecameDearer(t *testing.T) {
	calm, busy := sample{service: 10, redis: 4, allocations: 20}, sample{service: 40, redis: 16, allocations: 20}
	s := besideEarlier([]pair{
		{"the same", rounds(calm, busy, calm), rounds(calm, busy, calm)},
		{"a fifth more in Redis", rounds(calm, busy, calm), rounds(
			sample{service: 10, redis: 4.8, allocations: 20}, sample{service: 40, redis: 19.2, allocations: 20}, sample{service: 10, redis: 4.8, allocations: 20})},
		{"noise", rounds(sample{service: 10, redis: 0.1}), rounds(sample{service: 10, redis: 0.2})},
		{"one allocation more, in process", rounds(sample{service: 10, allocations: 20}), rounds(sample{service: 10.2, allocations: 21})},
	}, false)
	worse, found := strings.CutPrefix(s.Note, "More than 1.03 times what it was:\n\n")
	if !found {
		t.Fatalf("nothing is dearer:\n%s", s.Markdown())
	}
	const want = "* a fifth more in Redis: Redis CPU 1.20 (1.20–1.20)\n" +
		"* a fifth more in Redis: CPU 1.06 (1.06–1.06)\n" +
		"* one allocation more, in process: allocations 1.05 (1.05–1.05)"
	if worse != want {
		t.Errorf("dearer:\n%swant:\n%s", worse, want)
	}
	const row = "| one allocation more, in process | 10.0 → 10.2 | 1.02 (1.02–1.02) |  |  | 10.0 → 10.2 | 1.02 (1.02–1.02) | 20.0 → 21.0 | 1.05 (1.05–1.05) |\n"
	if rows := s.Tables[0].Markdown(); !strings.Contains(rows, row) {
		t.Errorf("the table lacks %q:\n%s", row, rows)
	}
}

func TestTableOfEqualVersions(t *testing.T) {
	same := rounds(sample{service: 10, redis: 5})
	if text := besideEarlier([]pair{{"the same", same, same}}, false).Note; !strings.Contains(text, "Nothing costs more than 1.03 times") {
		t.Errorf("something is dearer:\n%s", text)
	}
}

func TestTableOfInstructions(t *testing.T) {
	s := besideEarlier([]pair{{"a call", rounds(sample{service: 60, redis: 5}), rounds(sample{service: 66, redis: 5})}}, true)
	if !strings.Contains(s.Text, "1,000 instructions per call") || !strings.Contains(s.Note, "* a call: instructions 1.10 (1.10–1.10)") || strings.Contains(s.Markdown(), "CPU") {
		t.Errorf("want instructions only:\n%s", s.Markdown())
	}
}

func TestMetricOf(t *testing.T) {
	const page = "# TYPE go_memstats_mallocs_total counter\ngo_memstats_mallocs_total 1.5e+06\ngo_memstats_mallocs 7\n"
	if n, err := metricOf(page, "go_memstats_mallocs_total"); n != 1.5e6 || err != nil {
		t.Errorf("%v, %v; want 1500000", n, err)
	}
	if _, err := metricOf(page, "go_memstats_frees_total"); err == nil {
		t.Error("a metric that the page lacks was read")
	}
}
