package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/koalagate/koalagate/bench/report"
	"github.com/koalagate/koalagate/bench/stats"
)

// results collects the measurements.
type results struct {
	*report.Part
	// bases are what the model begins with.
	bases []base
}

// begin returns results without measurements.
func (o *options) begin() *results {
	r := &results{Part: o.report.Begin()}
	r.Chapter("Fleets", fmt.Sprintf(`Instances, their callers and Redis share the machine. An instance is a process with a
koalagate.Gate and %d callers, each of which makes the next call when it has an answer. CPU is
per decision. *Redis could serve* is what Redis would reach if it had a processor of its own,
for a Cluster one for each node: 1,000,000 / CPU of the busiest node per decision. Medians of
%d rounds of %v.`, callers, o.rounds, o.span))
	return r
}

var columns = []string{"instances", "decisions/s", "CPU µs of instances", "CPU µs of Redis", "busiest node", "Redis could serve, decisions/s"}

// section returns a section without measurements.
func (b *backend) section(t *traffic, leases bool) *report.Section {
	with := "without leases"
	if leases {
		with = "with lease=5%"
	}
	return &report.Section{
		Name: fmt.Sprintf("%s, %s traffic, %s", capital(b.name), t.name, with), Text: capital(t.description) + ".",
		Tables: []report.Table{{Columns: columns}},
	}
}

// row returns the line of a number of instances.
func row(size int, samples []sample) []string {
	return []string{
		strconv.Itoa(size), fmt.Sprintf("%.0f", median(samples, func(s sample) float64 { return s.rate })),
		fmt.Sprintf("%.2f", median(samples, instancesCPU)), fmt.Sprintf("%.3f", median(samples, redisCPU)),
		fmt.Sprintf("%.0f %%", 100*median(samples, func(s sample) float64 { return s.busy })),
		thousands(median(samples, func(s sample) float64 { return 1e6 / max(s.redis*s.share, 1e-6) })),
	}
}

// median returns the median of a figure.
func median(samples []sample, of func(sample) float64) float64 {
	list := make([]float64, len(samples))
	for i, s := range samples {
		list[i] = of(s)
	}
	return stats.Of(list).Median
}

// thousands returns a number with separators, rounded to two digits.
func thousands(n float64) string {
	unit := 1.0
	for n/unit >= 100 {
		unit *= 10
	}
	text := fmt.Sprintf("%.0f", math.Round(n/unit)*unit)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
