package tree

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module      = "github.com/koalagate/koalagate"
	redisClient = "github.com/redis/go-redis"
)

// programs are the folders whose packages may import everything and that no
// other package may import.
var programs = []string{"cmd", "e2e", "bench", "examples", "deploy/sbom"}

// TestArrowsBetweenPackages holds the imports to the table in ARCHITECTURE.md,
// which is the only place that lists them.
func TestArrowsBetweenPackages(t *testing.T) {
	arrows := arrowsOfTable(t)
	redisUsers := append(redisUsersOfPage(t), ".", "e2e", "bench")
	imports := importsOfPackages(t)
	for name := range arrows {
		if _, ok := imports[name]; !ok {
			t.Errorf("ARCHITECTURE.md: the table has a row for %s, which is not a package", name)
		}
	}
	for name, paths := range imports {
		allowed, listed := arrows[name]
		free := isBelow(name, programs)
		if !listed && !free {
			t.Errorf("%s: add a row to the table of packages in ARCHITECTURE.md", name)
			continue
		}
		for _, path := range paths {
			imported, ours := strings.CutPrefix(path, module)
			imported = strings.TrimPrefix(imported, "/")
			if imported == "" {
				imported = "."
			}
			if ours && isBelow(imported, programs) && !free {
				t.Errorf("%s imports %s, which is a program", name, imported)
			} else if ours && !free && !slices.Contains(allowed, imported) {
				t.Errorf("%s imports %s; the table in ARCHITECTURE.md allows %q", name, imported, allowed)
			}
			if strings.HasPrefix(path, redisClient) && !isBelow(name, redisUsers) {
				t.Errorf("%s imports %s; ARCHITECTURE.md allows it to %q", name, path, redisUsers)
			}
		}
		for _, row := range allowed {
			if !slices.Contains(paths, filepath.ToSlash(filepath.Join(module, row))) {
				t.Errorf("%s does not import %s; drop it from its row in ARCHITECTURE.md", name, row)
			}
		}
	}
}

var (
	packageRow = regexp.MustCompile("(?m)^\\| `([a-z0-9/]+)`([^|]*)\\|[^|]*\\|([^|]*)\\|$")
	quoted     = regexp.MustCompile("`([a-z0-9/]+)`")
)

// arrowsOfTable reads the table of packages in ARCHITECTURE.md: for each
// package, the packages of this module that it imports.
func arrowsOfTable(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## Packages\n")
	arrows := make(map[string][]string)
	for _, row := range packageRow.FindAllStringSubmatch(table, -1) {
		name, allowed := row[1], []string{}
		if strings.Contains(row[2], "at the root") {
			name = "."
		}
		for _, m := range quoted.FindAllStringSubmatch(row[3], -1) {
			allowed = append(allowed, m[1])
		}
		arrows[name] = allowed
	}
	if len(arrows) < 10 {
		t.Fatalf("ARCHITECTURE.md: the table of packages has %d rows that can be read", len(arrows))
	}
	return arrows
}

var redisSentence = regexp.MustCompile("Only ([^.;]+) use the Redis client")

// redisUsersOfPage reads the folders whose packages may import the Redis client from
// ARCHITECTURE.md.
func redisUsersOfPage(t *testing.T) (folders []string) {
	t.Helper()
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	sentence := redisSentence.FindStringSubmatch(string(text))
	if sentence == nil {
		t.Fatal("ARCHITECTURE.md does not name the folders that use the Redis client")
	}
	for _, m := range quoted.FindAllStringSubmatch(sentence[1], -1) {
		folders = append(folders, m[1])
	}
	return folders
}

// importsOfPackages reads the imports of every package of the module, without
// those of its tests. It reads the files itself rather than through `go list`,
// so that the test cache knows which files the result depends on.
func importsOfPackages(t *testing.T) map[string][]string {
	t.Helper()
	imports := map[string][]string{}
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(filepath.Dir(path))
		imports[name] = append(imports[name], []string{}...)
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			imports[name] = append(imports[name], imported)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return imports
}

// isBelow reports whether name is one of the folders or lies below one.
func isBelow(name string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		return name == folder || strings.HasPrefix(name, folder+"/")
	})
}
