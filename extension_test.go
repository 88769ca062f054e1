package koalagate_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	extensionKind = regexp.MustCompile("(?m)^A [a-z ]+, as `([A-Za-z.]+)`:$")
	extensionFile = regexp.MustCompile("(?m)^\\* `([A-Za-z0-9/_.]+)` `([^`]+)`: ")
)

// TestExtensionListsAreComplete checks the lists of ARCHITECTURE.md of the files that
// an extension changes: each file or folder contains the name next to it, and no other
// file in the scope of the list contains the name of the example.
func TestExtensionListsAreComplete(t *testing.T) {
	text := readText(t, "ARCHITECTURE.md")
	for title, scope := range map[string]string{"Extending the rule language": "rules", "Extending the service": "."} {
		_, section, found := strings.Cut(text, "\n## "+title+"\n")
		if !found {
			t.Fatalf("ARCHITECTURE.md has no section %q", title)
		}
		section, _, _ = strings.Cut(section, "\n## ")
		kinds := extensionKind.FindAllStringSubmatchIndex(section, -1)
		if len(kinds) != 3 {
			t.Fatalf("%s: %d lists, want 3", title, len(kinds))
		}
		files := sourceFiles(t, scope)
		for i, at := range kinds {
			end := len(section)
			if i+1 < len(kinds) {
				end = kinds[i+1][0]
			}
			checkExtensionList(t, section[at[2]:at[3]], section[at[1]:end], files)
		}
	}
}

// checkExtensionList checks the list of the example sample among files.
func checkExtensionList(t *testing.T, sample, list string, files []string) {
	t.Helper()
	var listed []string
	for _, m := range extensionFile.FindAllStringSubmatch(list, -1) {
		listed = append(listed, m[1])
		if !contains(t, m[1], m[2]) {
			t.Errorf("ARCHITECTURE.md, list of %s: %s does not contain %s", sample, m[1], m[2])
		}
	}
	word := regexp.MustCompile(`\b` + regexp.QuoteMeta(sample) + `\b`)
	for _, file := range files {
		if !isBelow(file, listed) && word.MatchString(readText(t, file)) {
			t.Errorf("ARCHITECTURE.md, list of %s: add %s, which contains it", sample, file)
		}
	}
}

// sourceFiles returns the Go files below a folder, without tests.
func sourceFiles(t *testing.T, folder string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			files = append(files, filepath.ToSlash(path))
		}
		return nil
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files below %s, %v", len(files), folder, err)
	}
	return files
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
