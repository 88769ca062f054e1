package main

import (
	"bufio"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// sample is the state of an instance.
type sample struct {
	at                                       time.Time
	goroutines, files, live, rss, identities float64 // live and rss in MB
}

// sample records the state of both instances.
func (s *scene) sample() {
	for i, k := range s.instances {
		m, err := scrape("http://" + k.Admin + "/metrics")
		if err != nil {
			s.event("samples", err)
			continue
		}
		one := sample{
			at: time.Now(), goroutines: m["go_goroutines"], files: m["process_open_fds"],
			live: m["go_memstats_heap_inuse_bytes"] / 1e6, rss: m["process_resident_memory_bytes"] / 1e6,
			identities: m["koalagate_memory_identities"],
		}
		s.mu.Lock()
		s.samples[i] = append(s.samples[i], one)
		s.mu.Unlock()
	}
}

// scrape reads the metrics without labels.
func scrape(url string) (map[string]float64, error) {
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	values := make(map[string]float64)
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			values[name] = value
		}
	}
	return values, lines.Err()
}

// measures are the quantities that must stay flat. A quantity has grown if its median
// in the last quarter of the run exceeds the median of the second by the factor and the slack
// together. A quantity without a factor explains the others.
var measures = []struct {
	name   string
	of     func(sample) float64
	factor float64
	slack  float64
}{
	{"resident memory, MB", func(s sample) float64 { return s.rss }, 1.15, 10},
	{"heap in use, MB", func(s sample) float64 { return s.live }, 1.15, 10},
	{"identities in process", func(s sample) float64 { return s.identities }, 0, 0},
	{"goroutines", func(s sample) float64 { return s.goroutines }, 1.1, 20},
	{"open descriptors", func(s sample) float64 { return s.files }, 1.1, 20},
}

// report returns the report, and reports whether everything held.
func (s *scene) report(commit string, took time.Duration) (text string, ok bool) {
	var b strings.Builder
	l := &s.ledger
	faults := slices.Clone(s.faults)
	absences, warnings := s.readLogs()
	excused := 0
	for _, u := range l.suspects {
		if u.overlaps(absences) {
			excused++
			continue
		}
		faults = append(faults, u.text)
	}
	reached := int(s.app.Reached())
	faults = append(faults, l.passed(reached)...)
	fmt.Fprintf(&b, "# Soak\n\nWritten by `make soak` at commit %s, %s, %v on %s, load average\n%s at the end.\n\n", commit, time.Now().UTC().Format(time.DateOnly), took.Round(time.Second), machine(), loadAverage())
	fmt.Fprintf(&b, `Two instances with one Redis behind Envoy and nginx. Each of %d users sent 12 requests
at once through both gateways; a rule admits %d per hour. While Redis was restarted, which
loses all counters, instances decided on their own, and users are not judged. Nor are
those whose requests overlap a time in which an instance says that it, or Redis, had too
little CPU: several instances may then exceed a limit by what others have not charged yet.

| what | number |
| --- | --- |
| requests | %d |
| admitted, and reached the application | %d, %d |
| users, of which overlapped a restart of Redis | %d, %d |
| users above or below the limit while an instance was short of CPU | %d |
| answers | %s |
`, l.users, limit, l.requests, l.admitted, reached, l.users, l.within, excused, table(l.statuses))
	for _, name := range slices.Sorted(maps.Keys(s.events)) {
		fmt.Fprintf(&b, "| %s | %d |\n", name, s.events[name])
	}
	b.WriteString("\nWarnings and errors in the logs of the instances:\n\n| message | number |\n| --- | --- |\n")
	for _, message := range slices.Sorted(maps.Keys(warnings)) {
		fmt.Fprintf(&b, "| %s | %d |\n", message, warnings[message])
	}
	faults = append(faults, s.writeQuarters(&b)...)
	b.WriteString(identitiesNote)
	if len(faults) == 0 {
		b.WriteString("\nNo other user was admitted more or fewer than the limit, every request was answered,\nno hostile request reached the application, and nothing else grew.\n")
		return b.String(), true
	}
	fmt.Fprintf(&b, "\n%d faults:\n\n", len(faults))
	for _, f := range faults[:min(len(faults), 50)] {
		fmt.Fprintf(&b, "* %s\n", f)
	}
	return b.String(), false
}

// identitiesNote explains the memory of a run that is no longer than the window of its rule.
const identitiesNote = `
An instance keeps the states of identities that Redis has refused, so that they stay refused
without Redis: 65,536 at most, of 150 bytes each (10 MB). Each user of this run adds one,
which ends with the window of its rule, an hour. So the memory rises until there are as
many, and then levels off.
`

// writeQuarters writes the table of the medians, and returns what grew.
func (s *scene) writeQuarters(b *strings.Builder) (grown []string) {
	b.WriteString("\nMedians of each quarter of the run:\n\n| instance | quantity | first | second | third | last | highest |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for i, samples := range s.samples {
		if len(samples) < 8 {
			grown = append(grown, fmt.Sprintf("instance %d has only %d samples; run longer", i+1, len(samples)))
			continue
		}
		for _, m := range measures {
			quarters, highest := quarters(samples, m.of)
			fmt.Fprintf(b, "| %d | %s | %.0f | %.0f | %.0f | %.0f | %.0f |\n", i+1, m.name, quarters[0], quarters[1], quarters[2], quarters[3], highest)
			if m.factor > 0 && quarters[3] > quarters[1]*m.factor+m.slack {
				grown = append(grown, fmt.Sprintf("instance %d: %s grew from %.0f to %.0f", i+1, m.name, quarters[1], quarters[3]))
			}
		}
	}
	return grown
}

// quarters returns the medians of a quantity in the four quarters of a run, and its
// maximum.
func quarters(samples []sample, of func(sample) float64) (medians [4]float64, highest float64) {
	for q := range medians {
		var values []float64
		for _, s := range samples[q*len(samples)/4 : (q+1)*len(samples)/4] {
			values = append(values, of(s))
		}
		slices.Sort(values)
		medians[q] = values[len(values)/2]
		highest = max(highest, values[len(values)-1])
	}
	return medians, highest
}

// loadAverage returns the load of the machine over the last 15 minutes, for the report.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(text)); err == nil && len(fields) > 2 {
		return fields[2]
	}
	return "unknown"
}

// machine returns the number of processors, for the report.
func machine() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "an unknown machine"
	}
	return fmt.Sprintf("%d cores", strings.Count(string(text), "processor\t:"))
}
