package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/koalagate/koalagate/bench/origin"
)

// report collects the measurements, and prints each at once.
type report struct {
	text bytes.Buffer
	// bases are what the model begins with.
	bases []base
}

func newReport(ctx context.Context, o *options) *report {
	r := new(report)
	fmt.Fprintf(&r.text, `# Measurements of fleets

Written by %s at commit %s, %s, %s, %s/%s, %d × %s. The load average of the machine was %s
before the run: above 1 there was other load, and times are not reliable.

Instances, their callers and Redis share the machine. An instance is a process with a
koalagate.Gate and %d callers, each of which makes the next call when it has an answer. CPU is
the time of all processors, user and system, per decision. *Redis could serve* is what Redis
would reach if it had a processor of its own, for a Cluster one for each node:
1,000,000 / CPU of the busiest node per decision. Medians of %d rounds of %v.
[performance.md](../performance.md#scale) explains the model.
`,
		"`go run ./bench/scale`", origin.Commit(ctx, "*.go", "*.lua", "go.mod"), time.Now().UTC().Format(time.DateOnly), runtime.Version(), runtime.GOOS, runtime.GOARCH,
		runtime.NumCPU(), origin.Processor(), origin.Load(), callers, o.rounds, o.span)
	return r
}

// print adds text to the report and prints it.
func (r *report) print(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.text.WriteString(text)
	fmt.Print(text)
}

// begin begins a table.
func (r *report) begin(b *backend, t *traffic, leases bool) {
	with := "without leases"
	if leases {
		with = "with lease=5%"
	}
	r.print("\n## %s, %s traffic, %s\n\n%s.\n\n", capital(b.name), t.name, with, capital(t.description))
	r.print("| instances | decisions/s | CPU µs of instances | CPU µs of Redis | busiest node | Redis could serve, decisions/s |\n| --- | --- | --- | --- | --- | --- |\n")
}

// add adds a line to the table.
func (r *report) add(size int, samples []sample) {
	r.print("| %d | %.0f | %.2f | %.3f | %.0f %% | %s |\n", size,
		median(samples, func(s sample) float64 { return s.rate }), median(samples, instancesCPU), median(samples, redisCPU),
		100*median(samples, func(s sample) float64 { return s.busy }),
		thousands(median(samples, func(s sample) float64 { return 1e6 / max(s.redis*s.share, 1e-6) })))
}

// median returns the median of a figure.
func median(samples []sample, of func(sample) float64) float64 {
	list := make([]float64, len(samples))
	for i, s := range samples {
		list[i] = of(s)
	}
	slices.Sort(list)
	return (list[len(list)/2] + list[(len(list)-1)/2]) / 2
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
