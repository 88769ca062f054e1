package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/koalagate/koalagate/bench/report"
)

// wordLists measures word lists. Lookups are not exported, so it runs the benchmark of
// package rules, from the root of the module.
func (r *run) wordLists(ctx context.Context, s *report.Section) error {
	lines, err := benchmark(ctx, "BenchmarkWordList", "-entries", strconv.Itoa(r.entries))
	if err != nil {
		return err
	}
	table := report.Table{Columns: []string{"entries", "number", "bytes per entry", "ns per lookup, present", "ns per lookup, missing", "loaded in s"}}
	var size, words, addresses float64
	for _, l := range lines {
		kind, _, _ := strings.Cut(strings.ReplaceAll(l.name, "_", " "), "-")
		m := l.metrics
		table.Rows = append(table.Rows, []string{kind, fmt.Sprintf("%.0f", m["entries"]), ns(m["bytes/entry"]), ns(m["ns/hit"]), ns(m["ns/miss"]), fmt.Sprintf("%.1f", m["s/load"])})
		slowest := &words
		if strings.HasPrefix(kind, "IP") {
			slowest = &addresses
		}
		size, *slowest = max(size, m["bytes/entry"]), max(*slowest, m["ns/hit"], m["ns/miss"])
	}
	s.Tables = []report.Table{table}
	r.FigureIn(" bytes", "a word list, an entry", once(size))
	r.FigureIn(" ns", "a word list, a lookup of a word", once(words))
	r.FigureIn(" ns", "a word list, a lookup of an address", once(addresses))
	return nil
}

// result is the line of a benchmark: what follows its name, and its figures by their units.
type result struct {
	name    string
	metrics map[string]float64
}

// benchmark runs a benchmark of package rules once.
func benchmark(ctx context.Context, name string, args ...string) (list []result, err error) {
	args = append([]string{"test", "-run", "^$", "-bench", "^" + name + "$", "-benchtime", "1x", "-timeout", "1h", "./rules"}, args...)
	test := exec.CommandContext(ctx, "go", args...) //nolint:gosec // the callers set only a number
	test.Stderr = os.Stderr
	output, err := test.Output()
	if err != nil {
		return nil, fmt.Errorf("%w:\n%s", err, output)
	}
	for lines := bufio.NewScanner(bytes.NewReader(output)); lines.Scan(); {
		rest, found := strings.CutPrefix(lines.Text(), name)
		if !found {
			continue
		}
		fields := strings.Fields(rest)
		m, err := metrics(fields)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", lines.Text(), err)
		}
		list = append(list, result{strings.TrimPrefix(fields[0], "/"), m})
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no figures in:\n%s", output)
	}
	return list, nil
}

// metrics returns the figures of a benchmark line by unit.
func metrics(fields []string) (map[string]float64, error) {
	if len(fields) < 4 {
		return nil, fmt.Errorf("%d fields; want a name, a number and figures with their units", len(fields))
	}
	m := make(map[string]float64)
	for i := 2; i+1 < len(fields); i += 2 {
		value, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return nil, err
		}
		m[fields[i+1]] = value
	}
	return m, nil
}
