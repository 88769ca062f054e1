package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// count is what all instances have admitted and refused by a rule.
type count struct{ admitted, refused int64 }

var ruleSeries = regexp.MustCompile(`(?m)^koalagate_rule_(admitted|refused)_total\{name="[^"]*",rule="(\d+)"\} (\d+)$`)

// readCounts reads the counts by rule of an instance from its metrics.
func readCounts(admin string) (map[string]count, error) {
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get("http://" + admin + "/metrics")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	counts := make(map[string]count)
	for _, found := range ruleSeries.FindAllStringSubmatch(string(text), -1) {
		n, err := strconv.ParseInt(found[3], 10, 64)
		if err != nil {
			return nil, err
		}
		c := counts[found[2]]
		if found[1] == "admitted" {
			c.admitted = n
		} else {
			c.refused = n
		}
		counts[found[2]] = c
	}
	return counts, nil
}

// counts returns the counts by rule of all instances. An instance that does not answer
// keeps the counts that it had.
func (s *scene) counts() map[string]count {
	all := make(map[string]count)
	for i, k := range s.instances {
		if counts, err := readCounts(k.Admin); err == nil {
			s.known[i] = counts
		}
		for rule, c := range s.known[i] {
			sum := all[rule]
			all[rule] = count{sum.admitted + c.admitted, sum.refused + c.refused}
		}
	}
	return all
}

// printCounts prints a line with the rules whose counts have changed since the last line.
func (s *scene) printCounts() {
	now := s.counts()
	var changes []string
	for _, rule := range slices.Sorted(maps.Keys(now)) {
		c, before := now[rule], s.shown[rule]
		if c == before {
			continue
		}
		if before == (count{}) {
			fmt.Printf("rule %s is %s\n", rule, s.ruleText(rule))
		}
		changes = append(changes, fmt.Sprintf("rule %s: %d admitted (+%d), %d refused (+%d)",
			rule, c.admitted, c.admitted-before.admitted, c.refused, c.refused-before.refused))
	}
	if len(changes) > 0 {
		fmt.Printf("%s  %s\n", time.Now().Format(time.TimeOnly), strings.Join(changes, "; "))
	}
	s.shown = now
}

// ruleText returns the line of the rule file with a rule.
func (s *scene) ruleText(rule string) string {
	text, err := os.ReadFile(s.rules)
	if err != nil {
		return err.Error()
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "rule") && strings.Contains(line, "return="+rule+"]") {
			return strings.TrimSpace(strings.TrimPrefix(line, "rule :"))
		}
	}
	return "not in " + s.rules
}
