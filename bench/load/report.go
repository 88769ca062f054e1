package main

import (
	"fmt"
	"strings"

	"github.com/koalagate/koalagate/bench/report"
	"github.com/koalagate/koalagate/bench/stats"
)

// results collects the measurements.
type results struct {
	*report.Part
	sections map[string][]*figures
}

func newResults(p *report.Part) *results { return &results{p, map[string][]*figures{}} }

var (
	columns = []string{
		"", "calls/s", "p50 µs", "p90", "p99", "p99.9", "service CPU µs per call", "Redis CPU", "callers' CPU",
		"service MB", "Redis MB", "Redis bytes in, out", "calls per script call",
	}
	ratioColumns = []string{"ratios", "calls/s", "service and Redis CPU", "p50", "p99"}
)

// add adds a section to the report.
func (r *results) add(s *section, all []*figures) {
	r.sections[s.name] = all
	measured, ratios := report.Table{Columns: columns}, report.Table{Columns: ratioColumns}
	var notes []string
	for _, f := range all {
		measured.Rows = append(measured.Rows, []string{
			f.subject.name, fmt.Sprintf("%.0f", f.of(rate).Median),
			micro(f.of(p50)), micro(f.of(p90)), micro(f.of(p99)), micro(f.of(p999)),
			micro(f.of(serviceCPU)), micro(f.of(redisCPU)), micro(f.of(callerCPU)), mega(f.memory), mega(f.ofRedis), network(f), batchSize(f),
		})
		if f.subject.net {
			notes = append(notes, fmt.Sprintf("Without calls, %s uses %.1f ms of CPU a second, and its Redis %.1f ms; the figures above are without these.",
				f.subject.name, 1000*f.idle.service, 1000*f.idle.redis))
		}
	}
	for _, f := range all[1:] {
		ratios.Rows = append(ratios.Rows, ratioRow(f, all[0]))
	}
	if ours, theirs := r.figures(s.name, withRedis), r.figures(s.name, envoyPeer); ours != nil && theirs != nil {
		ratios.Rows = append(ratios.Rows, ratioRow(ours, theirs))
	}
	tables := []report.Table{measured}
	if len(ratios.Rows) > 0 {
		tables = append(tables, ratios)
	}
	r.Add(report.Section{
		Name: s.name, Text: fmt.Sprintf("%s: %s; %d rounds.", capital(s.traffic.Name), s.load, len(all[0].samples)),
		Tables: tables, Note: strings.Join(notes, "\n"),
	})
}

func ratioRow(f, base *figures) []string {
	return []string{
		f.subject.name + " to " + base.subject.name,
		f.over(base, rate).String(), f.over(base, totalCPU).String(), f.over(base, p50).String(), f.over(base, p99).String(),
	}
}

// figures returns the figures of a subject in a section, nil if it was not measured.
func (r *results) figures(section, subject string) *figures {
	for _, f := range r.sections[section] {
		if f.subject.name == subject {
			return f
		}
	}
	return nil
}

func micro(v stats.Value) string {
	switch {
	case v.Median == 0:
		return ""
	case v.Median >= 1000:
		return fmt.Sprintf("%.0f", v.Median)
	}
	return fmt.Sprintf("%.1f", v.Median)
}

func mega(bytes int64) string {
	if bytes == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f", float64(bytes)/1e6)
}

func network(f *figures) string {
	if f.subject.redisAddress == "" {
		return ""
	}
	return fmt.Sprintf("%.0f, %.0f", f.of(bytesIn).Median, f.of(bytesOut).Median)
}

// batchSize returns the calls per script call, including calls refused from memory.
func batchSize(f *figures) string {
	scripts := f.of(scripts).Median
	if scripts == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", 1/scripts)
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
