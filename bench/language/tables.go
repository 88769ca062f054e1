package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// tables measures a table of a million rows. Lookups are not exported, so it runs the
// benchmark of package rules, from the root of the module.
func tables(ctx context.Context) ([]figure, error) {
	test := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkTable$", "-benchtime", "1x", "-timeout", "1h", "./rules")
	test.Stderr = os.Stderr
	output, err := test.Output()
	if err != nil {
		return nil, fmt.Errorf("%w:\n%s", err, output)
	}
	for lines := bufio.NewScanner(bytes.NewReader(output)); lines.Scan(); {
		if !strings.HasPrefix(lines.Text(), "BenchmarkTable") {
			continue
		}
		m, err := metrics(strings.Fields(lines.Text()))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", lines.Text(), err)
		}
		return []figure{
			{"a million rows: loaded in", fmt.Sprintf("%.2f s of CPU", m["s/load"]), "≤ 2 s", m["s/load"] <= 2},
			{"a million rows: per row, besides its text", fmt.Sprintf("%.0f bytes", m["bytes/row"]), "≤ 200 bytes", m["bytes/row"] <= 200},
			{"a million rows: per lookup of a random row", fmt.Sprintf("%.0f ns", m["ns/hit"]), "≤ 150 ns", m["ns/hit"] <= 150},
		}, nil
	}
	return nil, fmt.Errorf("no figures in:\n%s", output)
}
