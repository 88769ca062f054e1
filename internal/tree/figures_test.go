package tree

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/bench/quote"
	"github.com/koalagate/koalagate/bench/report"
)

// reports are the pages that programs write, with their goals.
var reports = regexp.MustCompile(`^docs/reports/`)

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

// Each figure that a page quotes from the report of `make bench` is that of the newest report.
func TestPagesQuoteTheNewestReport(t *testing.T) {
	newest, err := report.Parse(readText(t, report.Newest))
	if err != nil {
		t.Fatal(err)
	}
	quoting, err := quote.Pages()
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range quoting {
		text := readText(t, page.Path)
		switch rewritten, err := page.Rewritten(text, newest); {
		case err != nil:
			t.Error(err)
		case rewritten != text:
			t.Errorf("%s has other figures than %s; `go run ./bench -pages` updates it", page.Path, report.Newest)
		}
	}
}

// What `make bench` measures is stated in pages only by statements that the test above compares
// with the report.
func TestPagesHaveNoOtherFiguresOfTheReport(t *testing.T) {
	quoting, err := quote.Pages()
	if err != nil {
		t.Fatal(err)
	}
	figure := regexp.MustCompile(`\d\s+times\s+the\s+(calls|CPU)|\d\.\d+\s+of\s+(its|the)\s+CPU|\d\s+µs\s+of\s+CPU|\d\s+(requests|calls)\s+a\s+second\s+with`)
	for path, text := range usersPages(t) {
		for _, page := range quoting {
			if page.Path == path {
				text = page.Unquoted(text)
			}
		}
		for _, found := range figure.FindAllString(text, -1) {
			t.Errorf("%s states %q; want a statement that bench/quote/quotes.txt takes from the report", path, found)
		}
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
