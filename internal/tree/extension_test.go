package tree

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/koalagate/koalagate"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/middleware"
)

var (
	extensionKind = regexp.MustCompile("(?m)^A [a-z ]+, as (`[^:]+):$")
	extensionFile = regexp.MustCompile("(?m)^\\* ((?:`[A-Za-z0-9/_.]+`,?\\s+)+)`([^`]+)`:\\s")
	inQuotes      = regexp.MustCompile("`([^`]+)`")
)

// TestExtensionListsAreComplete checks the lists of ARCHITECTURE.md of the files that
// an extension changes: each file contains the text after it, and no other file of the
// module contains a name of the example.
func TestExtensionListsAreComplete(t *testing.T) {
	text := readText(t, "ARCHITECTURE.md")
	files := sourceFiles(t)
	for _, title := range []string{"Extending the rule language", "Extending the service"} {
		_, section, found := strings.Cut(text, "\n## "+title+"\n")
		if !found {
			t.Fatalf("ARCHITECTURE.md has no section %q", title)
		}
		section, _, _ = strings.Cut(section, "\n## ")
		kinds := extensionKind.FindAllStringSubmatchIndex(section, -1)
		if len(kinds) != 3 {
			t.Fatalf("%s: %d lists, want 3", title, len(kinds))
		}
		for i, at := range kinds {
			end := len(section)
			if i+1 < len(kinds) {
				end = kinds[i+1][0]
			}
			var names []string
			for _, m := range inQuotes.FindAllStringSubmatch(section[at[2]:at[3]], -1) {
				names = append(names, m[1])
			}
			checkExtensionList(t, names, section[at[1]:end], files)
		}
	}
}

// checkExtensionList checks the list of an example, which has some names, among files.
func checkExtensionList(t *testing.T, names []string, list string, files []string) {
	t.Helper()
	listed := map[string]bool{}
	for _, m := range extensionFile.FindAllStringSubmatch(list, -1) {
		folder := ""
		for _, quoted := range inQuotes.FindAllStringSubmatch(m[1], -1) {
			file := quoted[1]
			if joined := path.Join(folder, file); folder != "" && isPresent(joined) {
				file = joined
			}
			folder = path.Dir(file)
			listed[file] = true
			if !contains(t, file, m[2]) {
				t.Errorf("ARCHITECTURE.md, list of %s: %s does not contain %s", names[0], file, m[2])
			}
		}
	}
	if bullets := strings.Count(list, "\n* "); bullets != len(extensionFile.FindAllString(list, -1)) {
		t.Errorf("ARCHITECTURE.md, list of %s: %d bullets, of which the test can read %d", names[0], bullets, len(extensionFile.FindAllString(list, -1)))
	}
	for _, name := range names {
		word := regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`)
		_, own, _ := strings.Cut(strings.ToLower(name), ".") // the package of a door
		for _, file := range files {
			if listed[file] || path.Dir(file) == own && listed[own] {
				continue
			}
			// Contains is far faster than the expression.
			if text := readText(t, file); strings.Contains(text, name) && word.MatchString(text) {
				t.Errorf("ARCHITECTURE.md, list of %s: add %s, which contains %s", names[0], file, name)
			}
		}
	}
}

func isPresent(path string) bool {
	_, err := os.Stat(filepath.FromSlash(path))
	return err == nil
}

// TestDoorNamesAreConstants checks that no file spells the name of a door, so that the
// list of a door can find it.
func TestDoorNamesAreConstants(t *testing.T) {
	free := map[string]bool{ // the files that may
		"internal/doorname/doorname.go": true,
		"koalagate.go":                  true, // the constant that `go doc` shows
		"middleware/server.go":          true,
		"internal/service/imported.go":  true, // the service in health checks of envoyproxy/ratelimit
		"internal/probe/grpc.go":        true, // the name of a check
	}
	names := map[string]bool{}
	for _, door := range doorname.InRules() {
		names[strconv.Quote(door)] = door != doorname.Koala && door != doorname.Program // words for other things, too
	}
	for _, file := range sourceFiles(t) {
		if free[file] || !strings.HasSuffix(file, ".go") {
			continue
		}
		text := readText(t, file)
		if !slices.ContainsFunc(slices.Collect(maps.Keys(names)), func(name string) bool { return strings.Contains(text, name) }) {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && names[literal.Value] {
				t.Errorf("%s contains %s; use the constant of internal/doorname", file, literal.Value)
			}
			return true
		})
	}
	if koalagate.Door != doorname.Program || middleware.Door != doorname.Middleware {
		t.Errorf("the doors are %q and %q", koalagate.Door, middleware.Door)
	}
}

// sourceFiles returns the Go and Lua files of the module, without tests and programs.
func sourceFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || isBelow(path, programs)):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".lua"), strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			files = append(files, filepath.ToSlash(path))
		}
		return nil
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%d source files, %v", len(files), err)
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
