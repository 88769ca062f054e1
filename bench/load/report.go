package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/koalagate/koalagate/bench/origin"
	"github.com/koalagate/koalagate/bench/stats"
)

// report collects the measurements. It prints each section at once.
type report struct {
	show     io.Writer
	text     bytes.Buffer
	sections map[string][]*figures
}

func newReport(show io.Writer) *report { return &report{show: show, sections: map[string][]*figures{}} }

// print adds text to the report and prints it.
func (r *report) print(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.text.WriteString(text)
	fmt.Fprint(r.show, text)
}

// add adds a section to the report.
func (r *report) add(s *section, all []*figures) {
	r.sections[s.name] = all
	r.print("\n### %s\n\n%s: %s.\n\n", s.name, capital(s.traffic.Name), s.load)
	r.print("| | calls/s | p50 µs | p90 | p99 | p99.9 | service CPU µs per call | Redis CPU | callers' CPU | service MB | Redis MB | Redis bytes in, out | calls per script call |\n")
	r.print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, f := range all {
		r.print("| %s | %.0f | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", f.subject.name, f.of(rate).Median,
			micro(f.of(p50)), micro(f.of(p90)), micro(f.of(p99)), micro(f.of(p999)),
			micro(f.of(serviceCPU)), micro(f.of(redisCPU)), micro(f.of(callerCPU)), mega(f.memory), mega(f.ofRedis), network(f), batchSize(f))
	}
	for _, f := range all {
		if f.subject.net {
			r.print("\nWithout calls, %s uses %.1f ms of CPU a second, and its Redis %.1f ms; the figures above are without these.\n",
				f.subject.name, 1000*f.idle.service, 1000*f.idle.redis)
		}
	}
	if len(all) < 2 {
		return
	}
	r.print("\n| ratios | calls/s | service and Redis CPU | p50 | p99 |\n| --- | --- | --- | --- | --- |\n")
	for _, f := range all[1:] {
		r.addRatio(f, all[0])
	}
	if ours, theirs := r.figures(s.name, withRedis), r.figures(s.name, envoyPeer); ours != nil && theirs != nil {
		r.addRatio(ours, theirs)
	}
}

func (r *report) addRatio(f, base *figures) {
	r.print("| %s to %s | %s | %s | %s | %s |\n", f.subject.name, base.subject.name,
		f.over(base, rate), f.over(base, totalCPU), f.over(base, p50), f.over(base, p99))
}

// figures returns the figures of a subject in a section, nil if it was not measured.
func (r *report) figures(section, subject string) *figures {
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

// head returns the beginning of the report's file.
func head(ctx context.Context, redis string, r *run, took time.Duration) string {
	return fmt.Sprintf(`# Measurements of the service under load

Written by %s at commit %s, %s, %s, %s/%s, %d × %s, Redis %s, in %v.

A plain INCR, 64 in a pipeline, costs this Redis %.2f µs of CPU. The load average of
the machine was %s before the run: above 1 there was other load, and times are not
reliable.

Service, Redis and callers share the machine. Subjects of a section run
alternately, %d rounds of %v each after a warm-up. Figures are medians; ratios are
taken round by round: the median and, in parentheses, minimum and maximum. CPU is
the time of all processors, user and system. [performance.md](../performance.md)
explains the method.
`,
		"`make bench`", origin.Commit(ctx, "*.go", "*.lua", "go.mod"), time.Now().UTC().Format(time.DateOnly), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), origin.Processor(), redis, took.Round(time.Second),
		r.incr()*1e6, r.busy, r.bounds.rounds, r.bounds.span)
}
