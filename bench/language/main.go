// Command language measures the promises of the rule language: a decision takes no
// longer with many rules or calendar windows, queues keep their turns, many rules load
// quickly, long word lists and tables are small and fast, and a reload does not slow
// decisions. `make bench` runs it, too.
//
//	go run ./bench/language [-short] [-entries 10000000] [-only REGEXP]
//
// Times are CPU time, so that other load on the machine has little effect, except for
// the reload, which measures latency.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/koalagate/koalagate/bench/report"
)

// run is one run.
type run struct {
	*report.Part
	entries int // of word lists
	effort
}

// effort is how much is measured.
type effort struct {
	rounds int // of ratios that a goal refers to
	others int // of other ones
	calls  int // of a short turn
	rules  int // of the largest file
}

func main() {
	options := report.Flags()
	entries := flag.Int("entries", 10_000_000, "the length of the word lists")
	flag.Parse()
	r := &run{entries: *entries, effort: effort{rounds: 9, others: 2, calls: 5_000, rules: 500_000}}
	if options.Short {
		r.entries, r.effort = min(r.entries, 100_000), effort{rounds: 1, others: 1, calls: 1_000, rules: 100_000}
	}
	if err := r.measure(context.Background(), options); err != nil {
		fmt.Fprintln(os.Stderr, "bench/language:", err)
		os.Exit(1)
	}
}

func (r *run) measure(ctx context.Context, options *report.Options) error {
	chosen, err := options.Chosen()
	if err != nil {
		return err
	}
	r.Part = options.Begin()
	r.Chapter("The rule language", "Times are CPU time of the process, except for reloads.")
	for _, s := range []struct {
		name    string
		measure func(context.Context, *report.Section) error
	}{
		{"Decisions by many rules", r.decisions},
		{"Forms of limits", r.forms},
		{"A queue in process", r.queue},
		{"Loading rules", r.loading},
		{"Word lists", r.wordLists},
		{"Tables", r.tables},
		{"Reloads under load", r.reloads},
	} {
		if !chosen.MatchString(s.name) {
			continue
		}
		section := report.Section{Name: s.name}
		if err := s.measure(ctx, &section); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		r.Add(section)
	}
	return options.End(r.Part)
}
