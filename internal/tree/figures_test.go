package tree

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// reports are the pages of measurements, with the goals of their programs, and the page about how to
// read them.
var reports = regexp.MustCompile(`^docs/(performance|reports/.*)\.md$`)

// usersPages returns the texts of the pages for users by their paths.
func usersPages(t *testing.T) map[string]string {
	t.Helper()
	pages := make(map[string]string)
	read := func(path string) error {
		text, err := os.ReadFile(path)
		if !reports.MatchString(path) {
			pages[path] = string(text)
		}
		return err
	}
	err := filepath.WalkDir("docs", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		return read(path)
	})
	if err := errors.Join(err, read("README.md"), read("rules/README.md")); err != nil {
		t.Fatal(err)
	}
	if len(pages) < 50 {
		t.Fatalf("only %d pages", len(pages))
	}
	return pages
}

// The pages state the figures of the comparison with envoyproxy/ratelimit as the kept report has
// them.
func TestComparisonsAreOfTheKeptReport(t *testing.T) {
	report, err := os.ReadFile("docs/reports/bench-load.md")
	if err != nil {
		t.Fatal(err)
	}
	column := func(subject string) []string {
		var list []string
		for _, m := range regexp.MustCompile(`(?m)^\| [^|]*`+subject+` of envoyproxy/ratelimit's \| (\d+\.\d+) `).FindAllStringSubmatch(string(report), -1) {
			list = append(list, m[1])
		}
		return list
	}
	calls := column("calls/s")
	if len(calls) != 2 {
		t.Fatalf("docs/reports/bench-load.md compares the calls as %v; want two figures", calls)
	}
	statement := regexp.MustCompile(`(\d+\.\d+)\s+times\s+the\s+calls`)
	stated := 0
	for path, text := range usersPages(t) {
		for _, m := range statement.FindAllStringSubmatch(text, -1) {
			stated++
			if !slices.Contains(calls, m[1]) {
				t.Errorf("%s: %s times the calls; docs/reports/bench-load.md has %v", path, m[1], calls)
			}
		}
	}
	if stated < 3 {
		t.Errorf("the pages state %d comparisons; want 3 or more", stated)
	}
}

// What the developers aim for is in the reports, not in the pages for users.
func TestPagesForUsersHaveNoGoals(t *testing.T) {
	goal := regexp.MustCompile(`(?i)\b(goals?|stretch)\b`)
	for path, text := range usersPages(t) {
		for i, line := range strings.Split(text, "\n") {
			if goal.MatchString(line) {
				t.Errorf("%s:%d states a goal: %s", path, i+1, line)
			}
		}
	}
}
