// Package koalagate_test tests the public API, and the house rules of the whole tree.
package koalagate_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// step is `file:function` in ARCHITECTURE.md.
var step = regexp.MustCompile("`([a-z0-9/_]+\\.(?:go|lua)):([A-Za-z0-9_.]+)`")

func TestArchitectureNamesExistingFunctions(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	steps := step.FindAllStringSubmatch(string(text), -1)
	if len(steps) < 10 {
		t.Fatalf("ARCHITECTURE.md has %d steps of the form `file:function`; want at least 10", len(steps))
	}
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
