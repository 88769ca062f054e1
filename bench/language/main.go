// Command language measures the promises of the rule language: a decision takes no
// longer with many rules or calendar windows, queues keep their turns, many rules load
// quickly, long word lists and tables are small and fast, and a reload does not slow
// decisions. It writes a report of the figures and goals.
//
//	go run ./bench/language [-o docs/reports/bench-rules.md] [-entries 10000000] [-only REGEXP]
//
// Times are CPU time, so that other load on the machine has little effect, except for
// the reload, which measures latency.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
)

// figure is one line of the report.
type figure struct {
	what, got, goal string
	met             bool // also true without a goal
}

// section is a part of the report.
type section struct {
	name    string
	measure func(context.Context) ([]figure, error)
}

func main() {
	output := flag.String("o", "", "write the report to this `FILE`")
	entries := flag.Int("entries", 10_000_000, "the length of the word lists")
	only := flag.String("only", "", "a regular expression for the names of the sections")
	flag.Parse()
	if err := run(context.Background(), *output, *entries, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench/language:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, output string, entries int, only string) error {
	chosen, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	report := newReport(ctx)
	for _, s := range []section{
		{"Decisions", decisions},
		{"Thresholds", thresholds},
		{"Loading", loading},
		{"Word lists", func(ctx context.Context) ([]figure, error) { return wordLists(ctx, entries) }},
		{"Tables", tables},
		{"Reload under load", func(ctx context.Context) ([]figure, error) { return reloads(ctx, entries) }},
	} {
		if !chosen.MatchString(s.name) {
			continue
		}
		figures, err := s.measure(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		report.add(s.name, figures)
	}
	if output == "" {
		return nil
	}
	return os.WriteFile(output, report.text.Bytes(), 0o644) //nolint:gosec // a public report
}
