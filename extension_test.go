package koalagate_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	extensionKind = regexp.MustCompile("(?m)^A [a-z ]+, as `([A-Za-z]+)`:$")
	extensionFile = regexp.MustCompile("(?m)^\\* `([A-Za-z0-9/_.]+)` `([^`]+)`: ")
)

// TestExtensionListsAreComplete checks the lists of ARCHITECTURE.md of the files that
// a new method, rule word or condition operator changes: each file or folder contains
// the name beside it, and no other file of rules contains the name of the example.
func TestExtensionListsAreComplete(t *testing.T) {
	text := readText(t, "ARCHITECTURE.md")
	_, section, found := strings.Cut(text, "\n## Adding a method, a rule word, a condition operator\n")
	if !found {
		t.Fatal("ARCHITECTURE.md does not say how to add a method, a rule word or a condition operator")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	kinds := extensionKind.FindAllStringSubmatchIndex(section, -1)
	if len(kinds) != 3 {
		t.Fatalf("%d lists, want 3", len(kinds))
	}
	for i, at := range kinds {
		end := len(section)
		if i+1 < len(kinds) {
			end = kinds[i+1][0]
		}
		checkExtensionList(t, section[at[2]:at[3]], section[at[1]:end])
	}
}

func checkExtensionList(t *testing.T, sample, list string) {
	t.Helper()
	listed := map[string]bool{}
	for _, m := range extensionFile.FindAllStringSubmatch(list, -1) {
		listed[m[1]] = true
		if !contains(t, m[1], m[2]) {
			t.Errorf("ARCHITECTURE.md, list of %s: %s does not contain %s", sample, m[1], m[2])
		}
	}
	files, err := filepath.Glob("rules/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files of rules, %v", len(files), err)
	}
	word := regexp.MustCompile(`\b` + sample + `\b`)
	for _, file := range files {
		file = filepath.ToSlash(file)
		if !strings.HasSuffix(file, "_test.go") && !listed[file] && word.MatchString(readText(t, file)) {
			t.Errorf("ARCHITECTURE.md, list of %s: add %s, which contains it", sample, file)
		}
	}
}

// contains reports whether a file, or a file of a folder, contains a text.
func contains(t *testing.T, path, text string) bool {
	t.Helper()
	found := false
	err := filepath.WalkDir(filepath.FromSlash(path), func(file string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		found = found || strings.Contains(readText(t, file), text)
		return nil
	})
	if err != nil {
		t.Errorf("ARCHITECTURE.md: %v", err)
	}
	return found
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
