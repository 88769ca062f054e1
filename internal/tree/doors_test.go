package tree

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/koalagate/koalagate"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/middleware"
)

// isDoorRoom reports whether a folder is the package of a door, which may name the doors
// that it is, or the package that declares them.
func isDoorRoom(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "response.go"))
	return !strings.Contains(folder, "/") && err == nil || folder == middleware.Door || folder == "internal/doorname"
}

// doorUsers are the other files that may name a door, by its constant, with the door.
var doorUsers = map[string][]string{
	"cmd/koalagate/explain.go":        {"RateLimit"}, // the default with --limits
	"cmd/koalagate/why.go":            {"RateLimit"}, // sends the entries of a descriptor in their order
	"internal/explain/question.go":    {"ExtAuthz"},  // the default
	"internal/operations/imported.go": {"RateLimit"}, // the door of imported limits
	"internal/operations/why.go":      {"ExtAuthz"},  // the default
}

// TestDoorsAreDeclaredOnce checks that files outside the packages of doors ask the
// declaration of a door instead of comparing its name. Otherwise one more door would
// change them.
func TestDoorsAreDeclaredOnce(t *testing.T) {
	spelled := map[string]bool{} // names that are no words for other things
	for _, door := range doorname.InRules() {
		spelled[strconv.Quote(door)] = door != doorname.Koala && door != doorname.Program
	}
	constants := constantsOf(t, "internal/doorname/doorname.go")
	read := 0
	for _, file := range sourceFiles(t) {
		if isDoorRoom(path.Dir(file)) || !strings.HasSuffix(file, ".go") {
			continue
		}
		text := readText(t, file)
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		read++
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "doorname" && constants[n.Sel.Name] && !slices.Contains(doorUsers[file], n.Sel.Name) {
					t.Errorf("%s names the door %s; ask its declaration in internal/doorname", file, n.Sel.Name)
				}
			case *ast.BasicLit:
				if spelled[n.Value] && !maySpell[file] {
					t.Errorf("%s contains %s; ask the declaration in internal/doorname", file, n.Value)
				}
			}
			return true
		})
	}
	if read < 100 || len(constants) != len(doorname.InRules()) {
		t.Errorf("read %d files and %d constants; want all, and one of each door", read, len(constants))
	}
	if koalagate.Door != doorname.Program || middleware.Door != doorname.Middleware {
		t.Errorf("the doors are %q and %q", koalagate.Door, middleware.Door)
	}
}

// maySpell are files that contain the name of a door for something else, or for `go doc`.
var maySpell = map[string]bool{
	"koalagate.go":                  true, // the constant that `go doc` shows
	"cmd/koalagate/ratelimit.go":    true, // the name of the program
	"internal/service/imported.go":  true, // the service in health checks of envoyproxy/ratelimit
	"internal/probe/grpc.go":        true, // the name of a check
	"internal/gateways/gateways.go": true, // the name of a gateway
}

// constantsOf returns the names of the constants of a file whose values are strings.
func constantsOf(t *testing.T, file string) map[string]bool {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, readText(t, file), parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, d := range parsed.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
			for _, s := range g.Specs {
				v, ok := s.(*ast.ValueSpec)
				if !ok || len(v.Values) != 1 {
					continue
				}
				if literal, ok := v.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
					names[v.Names[0].Name] = true
				}
			}
		}
	}
	return names
}

// sourceFiles returns the Go and Lua files of the module, without tests and programs.
func sourceFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || isBelow(path, apart)):
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

// apart are the folders of programs that koalagate's users do not run.
var apart = []string{"bench", "e2e", "examples"}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
