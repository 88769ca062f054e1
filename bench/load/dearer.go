package main

import (
	"fmt"
	"strings"
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
var costs = []struct {
	name   string
	metric metric
}{
	{"service CPU", serviceCPU},
	{"Redis CPU", redisCPU},
	{"CPU", totalCPU},
	{"allocations", allocations},
}

// table returns the costs of all pairs and their ratios, and then what became dearer.
func table(pairs []pair) string {
	var rows, worse strings.Builder
	rows.WriteString("\n## Relative to the earlier version\n\nµs per call, earlier → now, and the median of the ratios of neighboring turns.\n\n|")
	for _, c := range costs {
		fmt.Fprintf(&rows, " | %s | ratio", c.name)
	}
	rows.WriteString(" |\n| ---" + strings.Repeat(" | --- | ---", len(costs)) + " |\n")
	for _, p := range pairs {
		fmt.Fprintf(&rows, "| %s |", p.name)
		for _, c := range costs {
			before, now, ratio := p.before.of(c.metric), p.now.of(c.metric), p.now.over(p.before, c.metric)
			if !ratio.Measured() {
				rows.WriteString(" | |")
				continue
			}
			fmt.Fprintf(&rows, " %.1f → %.1f | %s |", before.Median, now.Median, ratio)
			if ratio.Median > dearer && now.Median >= leastCost {
				fmt.Fprintf(&worse, "* %s: %s %s\n", p.name, c.name, ratio)
			}
		}
		rows.WriteString("\n")
	}
	if worse.Len() == 0 {
		return rows.String() + fmt.Sprintf("\nNothing costs more than %v times what it did.\n", dearer)
	}
	return rows.String() + fmt.Sprintf("\nMore than %v times what it was:\n\n%s", dearer, worse.String())
}
