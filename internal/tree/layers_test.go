package tree

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A file of package rules uses no identifier that a file of a later layer declares. The
// layers are those that the package comment lists.
func TestLayersOfRules(t *testing.T) {
	const folder = "rules"
	layers := layersOf(t, filepath.Join(folder, "doc.go"))
	fset := token.NewFileSet()
	files := productFiles(t, fset, folder)
	layerOf := make(map[string]int)
	for _, file := range files {
		name := filepath.Base(fset.Position(file.Pos()).Filename)
		if name != "doc.go" {
			layerOf[name] = layerOfFile(t, layers, name)
		}
	}
	uses := map[*ast.Ident]types.Object{}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", exported(t, "./"+folder))}
	checked, err := config.Check(module+"/"+folder, fset, files, &types.Info{Uses: uses})
	if err != nil {
		t.Fatal(err)
	}
	own := 0
	for name, object := range uses {
		if object.Pkg() != checked {
			continue
		}
		own++
		from, to := fset.Position(name.Pos()), fset.Position(object.Pos())
		user, owner := layerOf[filepath.Base(from.Filename)], layerOf[filepath.Base(to.Filename)]
		if user < owner {
			t.Errorf("%v: %s is declared in %s, which is of the layer %s: move one of them, or the file of one in doc.go",
				from, name.Name, filepath.Base(to.Filename), layers[owner].name)
		}
	}
	if own < 1000 {
		t.Errorf("%s uses %d of its own identifiers; want all to be seen", folder, own)
	}
}

// exported returns a function that opens the compiled form of a package. It knows all packages
// that a package imports; go list compiles them.
func exported(t *testing.T, folder string) importer.Lookup {
	t.Helper()
	list := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", folder)
	list.Stderr = os.Stderr
	lines, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for line := range strings.Lines(string(lines)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[name] = file
	}
	return func(name string) (io.ReadCloser, error) { return os.Open(files[name]) }
}

// fileLayer is a layer of a package: the names of its files, which may be patterns.
type fileLayer struct {
	name  string
	files []string
}

var layerLine = regexp.MustCompile(`(?m)^//\t(\w*) +((?:[a-z_*]+\.go ?)+)$`)

// layersOf reads the layers from the comment of a package, lowest first. A line without a
// name continues the layer above it.
func layersOf(t *testing.T, path string) (layers []fileLayer) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range layerLine.FindAllStringSubmatch(string(text), -1) {
		if line[1] != "" {
			layers = append(layers, fileLayer{name: line[1]})
		}
		if len(layers) == 0 {
			t.Fatalf("%s: the first layer has no name", path)
		}
		last := &layers[len(layers)-1]
		last.files = append(last.files, strings.Fields(line[2])...)
	}
	if len(layers) < 2 {
		t.Fatalf("%s lists %d layers of files", path, len(layers))
	}
	for _, layer := range layers {
		for _, pattern := range layer.files {
			if found, err := filepath.Glob(filepath.Join(filepath.Dir(path), pattern)); err != nil || len(found) == 0 {
				t.Errorf("%s: no file is %s", path, pattern)
			}
		}
	}
	return layers
}

// layerOfFile returns the index of the layer of a file, which must have one.
func layerOfFile(t *testing.T, layers []fileLayer, file string) int {
	t.Helper()
	found := -1
	for i, layer := range layers {
		for _, pattern := range layer.files {
			if ok, err := filepath.Match(pattern, file); err != nil {
				t.Fatal(err)
			} else if ok && found >= 0 && found != i {
				t.Errorf("%s is in the layers %s and %s", file, layers[found].name, layer.name)
			} else if ok {
				found = i
			}
		}
	}
	if found < 0 {
		t.Fatalf("%s is in no layer; add it to the list in doc.go", file)
	}
	return found
}

// productFiles parses the files of a package, without its tests.
func productFiles(t *testing.T, fset *token.FileSet, folder string) (files []*ast.File) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}
