package main

import (
	"fmt"
	"strings"

	"github.com/koalagate/koalagate/bench/report"
)

// dearer is the ratio from which on the costs of a version are reported as worse.
const dearer = 1.03

// leastCost is the cost in µs below which ratios only show the noise of the machine: Redis
// has hardly any work with refusals that the service remembers.
const leastCost = 0.5

// pair is two versions of the service under one load.
type pair struct {
	name        string
	before, now *figures
}

// costs are the compared costs of a call, by their names in reports.
var costs = []cost{
	{"service CPU", serviceCPU},
	{"Redis CPU", redisCPU},
	{"CPU", totalCPU},
	{"allocations", allocations},
}

// countedCosts are the costs that the programs count instead of measuring time.
var countedCosts = []cost{{"instructions", serviceCPU}, {"allocations", allocations}}

// cost is a metric, named as in reports.
type cost struct {
	name   string
	metric metric
}

// besideEarlier returns the costs of all pairs and their ratios, with a note on what became
// dearer.
func besideEarlier(pairs []pair, instructions bool) report.Section {
	t := report.Table{Columns: []string{""}}
	compared, unit := costs, "µs per call"
	if instructions {
		compared, unit = countedCosts, "1,000 instructions per call"
	}
	for _, c := range compared {
		t.Columns = append(t.Columns, c.name, c.name+", ratio")
	}
	var worse strings.Builder
	for _, p := range pairs {
		row := []string{p.name}
		for _, c := range compared {
			before, now, ratio := p.before.of(c.metric), p.now.of(c.metric), p.now.over(p.before, c.metric)
			if !ratio.Measured() {
				row = append(row, "", "")
				continue
			}
			row = append(row, fmt.Sprintf("%.1f → %.1f", before.Median, now.Median), ratio.String())
			if ratio.Median > dearer && now.Median >= leastCost {
				fmt.Fprintf(&worse, "* %s: %s %s\n", p.name, c.name, ratio)
			}
		}
		t.Rows = append(t.Rows, row)
	}
	s := report.Section{
		Name: "Relative to the earlier version", Text: unit + ", earlier → now, and the median of the ratios of neighboring turns.", Tables: []report.Table{t},
		Note: fmt.Sprintf("Nothing costs more than %v times what it did.", dearer),
	}
	if worse.Len() > 0 {
		s.Note = fmt.Sprintf("More than %v times what it was:\n\n%s", dearer, strings.TrimSuffix(worse.String(), "\n"))
	}
	return s
}
