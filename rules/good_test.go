package rules

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestGoodFiles compares realistic files with their meaning in a golden file. They have
// no findings.
func TestGoodFiles(t *testing.T) {
	for _, path := range files(t, "testdata/good/*.conf", 20) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".conf"), func(t *testing.T) {
			set, findings := parseFile(t, path)
			if len(findings) > 0 {
				t.Fatalf("want no finding:\n%s", report(findings))
			}
			if set.Results[0] == nil || set.Results[1] == nil || len(set.Hash) != 64 {
				t.Errorf("the set is not whole: %+v", set)
			}
			golden(t, strings.TrimSuffix(path, ".conf")+".golden", meaning(set))
		})
	}
}

// meaning describes a set.
func meaning(set *Set) string {
	var b strings.Builder
	fmt.Fprintf(&b, "days of %s\n", set.Zone)
	for _, d := range set.Params {
		sources := make([]string, len(d.Sources))
		for i, s := range d.Sources {
			sources[i] = s.String()
		}
		fmt.Fprintf(&b, "%s is %s\n", d.Name, strings.Join(sources, ", else "))
	}
	for _, e := range set.routes.list {
		fmt.Fprintf(&b, "route %s gives %v and %d of the path\n", e.at.text(), e.constants, len(e.variables))
	}
	for _, r := range set.Rules {
		fmt.Fprintf(&b, "rule %d, met by %s: %s\n", r.Return, subjectInOrder(r), thresholdsOf(r))
	}
	for n := range maxReturn {
		r := set.Results[n]
		if r == nil {
			break
		}
		fmt.Fprintf(&b, "entry %d: %s %s", n, r.Verdict(), r.Entry(r.RetCode))
		if r.HTTPStatus != 0 || r.GRPCStatus != 0 || len(r.Headers) > 0 || r.Body != "" {
			fmt.Fprintf(&b, " status %d and %d, headers %v, body %q", r.HTTPStatus, r.GRPCStatus, r.Headers, r.Body)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func subjectInOrder(r *Rule) string {
	conditions := make([]string, len(r.Conditions))
	for i, c := range r.Conditions {
		conditions[i] = c.String()
	}
	return strings.Join(conditions, " and ")
}

// thresholdsOf describes a rule's limits.
func thresholdsOf(r *Rule) string {
	words := []string{r.Method.String()}
	if r.Counts() {
		words[0] += fmt.Sprintf(" by %s, count %d, time %d", listNames(countedBy(r)), r.Count, r.Time)
	}
	for _, word := range []struct {
		name string
		n    int64
	}{{"base", r.Base}, {"burst", r.Burst}, {"erase1", r.Erase1}, {"erase2", r.Erase2}} {
		if word.n != 0 {
			words = append(words, fmt.Sprintf("%s %d", word.name, word.n))
		}
	}
	if r.Unit != Seconds || r.From != 0 {
		words = append(words, fmt.Sprintf("unit %d from %d", r.Unit, r.From))
	}
	if r.Overdraft {
		words = append(words, "overdraft")
	}
	if r.Ban != 0 || r.Wait != 0 {
		words = append(words, fmt.Sprintf("ban %d s, wait %d ms", r.Ban, r.Wait))
	}
	for i := range r.Thresholds {
		words = append(words, r.Thresholds[i].Word+" from "+r.Thresholds[i].String())
	}
	if r.Cost != "" {
		words = append(words, "cost "+r.Cost)
	}
	if i := slices.Index(failPolicies, r.Fail); i >= 0 {
		words = append(words, "fail "+failWords[i])
	}
	if r.Shadow {
		words = append(words, "shadow")
	}
	if r.Mark != "" {
		words = append(words, "marks "+r.Mark)
	}
	if r.Quiet {
		words = append(words, "quiet")
	}
	for _, bound := range []struct {
		name string
		at   int64
	}{{"since", r.Since}, {"until", r.Until}} {
		if bound.at != 0 {
			words = append(words, bound.name+" "+time.UnixMilli(bound.at).UTC().Format(time.RFC3339))
		}
	}
	if r.Name != "" {
		words = append(words, "name "+r.Name)
	}
	return fmt.Sprintf("%s; answers %d, %s", strings.Join(words, ", "), r.Result.Number, r.Result.Verdict())
}
