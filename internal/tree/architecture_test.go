// Package koalagate_test tests the public API, and the house rules of the whole tree.
package tree

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
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

// begins matches the text before a function that no function of the walk calls.
var begins = regexp.MustCompile(`(?:gRPC calls|Go programs open the same app through|put)\s+$`)

// TestStepsCallEachOther holds the walks of ARCHITECTURE.md to the code: each function is
// called by one that the walk names before it, directly or through functions of the
// packages of both. The text says which functions other programs call.
func TestStepsCallEachOther(t *testing.T) {
	walks := map[string][]walked{}
	var folders []string
	for title, least := range map[string]int{"One request, step by step": 25, "Start and reload": 8} {
		_, section, _ := strings.Cut(readText(t, "ARCHITECTURE.md"), "\n## "+title+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		for _, at := range step.FindAllStringSubmatchIndex(section, -1) {
			file, name := section[at[2]:at[3]], section[at[4]:at[5]]
			if !strings.HasSuffix(file, ".go") {
				continue
			}
			folder := path.Dir(file)
			folders = append(folders, folder)
			walks[title] = append(walks[title], walked{folder + ":" + name, begins.MatchString(section[:at[0]])})
		}
		if len(walks[title]) < least {
			t.Fatalf("ARCHITECTURE.md, %s: %d steps of the form `file:function`; want at least %d", title, len(walks[title]), least)
		}
	}
	slices.Sort(folders)
	g := newCallGraph(t, slices.Compact(folders))
	for title, walk := range walks {
		for i, to := range walk {
			if i > 0 && !to.begins && !slices.ContainsFunc(walk[:i], func(from walked) bool { return g.reaches(from.name, to.name) }) {
				t.Errorf("ARCHITECTURE.md, %s: no function that the walk names before %s calls it", title, to.name)
			}
		}
	}
	// The graph is not so dense that it proves everything.
	for from, to := range map[string]string{"extauthz:Server.appendAnswer": "internal/door:Gate.Hit", "internal/door:Gate.Map": "engine:Engine.Decide"} {
		if g.reaches(from, to) {
			t.Errorf("%s seems to call %s", from, to)
		}
	}
}

// walked is a function of a walk.
type walked struct {
	name   string // folder:Function
	begins bool   // other programs call it
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
