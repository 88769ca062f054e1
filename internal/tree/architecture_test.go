package tree

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// step is `file:function` in ARCHITECTURE.md.
var step = regexp.MustCompile("`([a-z0-9/_]+\\.(?:go|lua)):([A-Za-z0-9_.]+)`")

func TestArchitectureNamesExistingFunctions(t *testing.T) {
	steps := step.FindAllStringSubmatch(readText(t, "ARCHITECTURE.md"), -1)
	functions := map[string]map[string]bool{}
	for _, s := range steps {
		file, function := s[1], s[2]
		if functions[file] == nil {
			functions[file] = functionsOf(t, file)
		}
		if !functions[file][function] {
			t.Errorf("ARCHITECTURE.md: step `%s:%s` does not exist; name the function that replaced it", file, function)
		}
	}
}

// namedFile is a file in ARCHITECTURE.md with its folder.
var namedFile = regexp.MustCompile("`((?:[a-z0-9_]+/)+[a-z0-9_]+\\.(?:go|lua|yaml|json|md))`")

func TestArchitectureNamesExistingFiles(t *testing.T) {
	names := namedFile.FindAllStringSubmatch(readText(t, "ARCHITECTURE.md"), -1)
	for _, m := range names {
		if _, err := os.Stat(filepath.FromSlash(m[1])); err != nil {
			t.Errorf("ARCHITECTURE.md: %v", err)
		}
	}
	if len(names) < 20 {
		t.Errorf("ARCHITECTURE.md names %d files; want all to be seen", len(names))
	}
}

// measured is a call in docs/reports/house.md, as the runtime names it.
var measured = regexp.MustCompile("(?m)^\\d+\\. `([a-z0-9/_]+)\\.(?:\\(\\*?([A-Za-z]+)\\)\\.)?([A-Za-z]+)`$")

// TestWalkFollowsTheMeasuredCalls holds the walk of ARCHITECTURE.md to the calls of a real
// request, which docs/reports/house.md lists: the walk names them in their order, as far as it
// names them, and it names a third of them.
func TestWalkFollowsTheMeasuredCalls(t *testing.T) {
	_, walk, _ := strings.Cut(readText(t, "ARCHITECTURE.md"), "\n## One request, step by step\n")
	walk, _, _ = strings.Cut(walk, "\n## ")
	place := map[string]int{} // of a function in the walk, as folder:Function
	for i, s := range step.FindAllStringSubmatch(walk, -1) {
		if name := path.Dir(s[1]) + ":" + s[2]; place[name] == 0 {
			place[name] = i + 1
		}
	}
	calls := measured.FindAllStringSubmatch(readText(t, "docs/reports/house.md"), -1)
	if len(calls) == 0 {
		t.Fatal("docs/reports/house.md lists no calls; `make house` writes them")
	}
	named, last := 0, ""
	for _, c := range calls {
		name := c[1] + ":" + c[3]
		if c[2] != "" {
			name = c[1] + ":" + c[2] + "." + c[3]
		}
		if place[name] == 0 {
			continue
		}
		named++
		if place[name] < place[last] {
			t.Errorf("ARCHITECTURE.md names %s before %s, which calls it", name, last)
		}
		last = name
	}
	if 3*named < len(calls) {
		t.Errorf("ARCHITECTURE.md names %d of the %d calls of a request in docs/reports/house.md; want a third of them", named, len(calls))
	}
}

// functionsOf lists the functions that a file declares: `Name`, `Type.Method`
// and, for short, `Method`.
func functionsOf(t *testing.T, file string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(file))
	if err != nil {
		t.Errorf("ARCHITECTURE.md: %v", err)
		return map[string]bool{}
	}
	if strings.HasSuffix(file, ".lua") {
		return luaFunctions(string(text))
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			names[f.Name.Name] = true
			if f.Recv != nil {
				names[receiver(f.Recv.List[0].Type)+"."+f.Name.Name] = true
			}
		}
	}
	return names
}

func receiver(e ast.Expr) string {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

var luaFunction = regexp.MustCompile(`(?m)^\s*(?:local\s+)?function\s+([A-Za-z0-9_.]+)`)

func luaFunctions(text string) map[string]bool {
	names := map[string]bool{}
	for _, m := range luaFunction.FindAllStringSubmatch(text, -1) {
		names[m[1]] = true
	}
	return names
}

func TestDoorsHaveTheSameFiles(t *testing.T) {
	for _, door := range []string{"extauthz", "ratelimit", "nginx", "koala"} {
		for _, file := range []string{"server.go", "request.go", "response.go"} {
			if _, err := os.Stat(filepath.Join(door, file)); err != nil {
				t.Errorf("%v: every door has server.go, request.go and response.go", err)
			}
		}
	}
}

func TestPackageNamesAreSpecific(t *testing.T) {
	vague := map[string]bool{"pkg": true, "util": true, "utils": true, "common": true, "helper": true, "helpers": true, "base": true, "misc": true}
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !entry.IsDir():
			return nil
		case path != "." && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case vague[entry.Name()]:
			t.Errorf("%s: the name does not describe the contents", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
