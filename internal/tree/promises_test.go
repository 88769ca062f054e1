package tree

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testName = regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z0-9]*)`")
	testFunc = regexp.MustCompile(`^func ((?:Test|Fuzz)[A-Z][A-Za-z0-9]*)\(`)
	promise  = regexp.MustCompile("^\\| [^|]+ \\| [^|]+ \\| (`[^|]+) \\| 20\\d\\d-\\d\\d-\\d\\d \\|$")
)

// TestPromisesNameTheirTests checks that each row of the table of promises has a figure, a
// date, and tests that exist.
func TestPromisesNameTheirTests(t *testing.T) {
	text, err := os.ReadFile("docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| --- | --- | --- | --- |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	tests, rows := testsOfTheModule(t), 0
	for row := range strings.Lines(table) {
		rows++
		found := promise.FindStringSubmatch(strings.TrimSpace(row))
		if found == nil {
			t.Errorf("%q: want a promise, a figure, a test and a date", row)
			continue
		}
		names := testName.FindAllStringSubmatch(found[1], -1)
		if len(names) == 0 && !strings.Contains(found[1], "`make ") {
			t.Errorf("%q names no test", row)
		}
		for _, name := range names {
			if !tests[name[1]] {
				t.Errorf("docs/reliability.md: %s does not exist", name[1])
			}
		}
	}
	if rows < 20 {
		t.Errorf("the table has %d rows; want at least 20", rows)
	}
}

// TestSecurityNamesItsTests checks that each row about programs that can write to Redis names
// tests that exist.
func TestSecurityNamesItsTests(t *testing.T) {
	text, err := os.ReadFile("SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| shown by |\n| --- | --- | --- | --- |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	tests, rows := testsOfTheModule(t), 0
	for row := range strings.Lines(table) {
		rows++
		names := testName.FindAllStringSubmatch(row, -1)
		if len(names) == 0 {
			t.Errorf("%q names no test", row)
		}
		for _, name := range names {
			if !tests[name[1]] {
				t.Errorf("SECURITY.md: %s does not exist", name[1])
			}
		}
	}
	if rows < 14 {
		t.Errorf("the table has %d rows; want at least 14", rows)
	}
}

// testsOfTheModule returns the names of all tests and fuzz targets.
func testsOfTheModule(t *testing.T) map[string]bool {
	t.Helper()
	tests := make(map[string]bool)
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != "." && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "func ") {
				continue // far faster than the expression, under the race detector above all
			}
			if found := testFunc.FindStringSubmatch(line); found != nil {
				tests[found[1]] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}
