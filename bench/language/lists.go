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
)

// wordLists measures lists with this number of entries. Lookups are not exported, so it
// runs the benchmark of package rules, from the root of the module.
func wordLists(ctx context.Context, entries int) ([]figure, error) {
	test := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkWordList$", "-benchtime", "1x", "-timeout", "1h", "./rules", "-entries", strconv.Itoa(entries)) //nolint:gosec // the caller sets only a number
	test.Stderr = os.Stderr
	output, err := test.Output()
	if err != nil {
		return nil, fmt.Errorf("%w:\n%s", err, output)
	}
	var figures []figure
	for lines := bufio.NewScanner(bytes.NewReader(output)); lines.Scan(); {
		name, rest, found := strings.Cut(lines.Text(), "/")
		if !found || name != "BenchmarkWordList" {
			continue
		}
		m, err := metrics(strings.Fields(rest))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", lines.Text(), err)
		}
		kind, _, _ := strings.Cut(strings.ReplaceAll(rest, "_", " "), "-")
		figures = append(figures,
			figure{kind + ": per entry", fmt.Sprintf("%.0f bytes; all loaded in %.1f s", m["bytes/entry"], m["s/load"]), "≤ 100 bytes", m["bytes/entry"] <= 100},
			figure{kind + ": per lookup", fmt.Sprintf("%.0f ns for present entries, %.0f ns for missing ones", m["ns/hit"], m["ns/miss"]), "≤ 100 ns", max(m["ns/hit"], m["ns/miss"]) <= 100},
		)
	}
	if len(figures) == 0 {
		return nil, fmt.Errorf("no figures in:\n%s", output)
	}
	return figures, nil
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
