// Package record reads the figures that benchmarks as tests keep in testdata.
package record

import (
	"fmt"
	"os"
	"strings"
)

// Read returns the figures of a file with lines of the form NAME: FIGURE, by their names.
func Read(name string) (map[string]string, error) {
	text, err := os.ReadFile(name) //nolint:gosec // a file of the caller
	if err != nil {
		return nil, err
	}
	figures := map[string]string{}
	for line := range strings.Lines(string(text)) {
		subject, figure, found := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if !found {
			return nil, fmt.Errorf("%s: invalid line %q; want NAME: FIGURE", name, line)
		}
		figures[subject] = figure
	}
	return figures, nil
}
