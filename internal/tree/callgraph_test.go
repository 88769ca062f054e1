package tree

import (
	"bytes"
	"cmp"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// callGraph has an edge for each call between functions of the module, by their types. A
// call through an interface leads to the method of every type that implements it, and a
// call of a function value to every function of its type that is used as a value. A
// function that uses another as a value calls it. The body of a function literal belongs
// to the function that contains it.
type callGraph struct {
	t       *testing.T
	files   *token.FileSet
	exports map[string]string // files of compiled packages, by import path
	others  types.Importer    // of packages outside the module
	bodies  []string          // folders of the packages whose calls are read
	checked map[string]*types.Package

	calls   map[string][]string   // callees by caller
	dynamic map[string][]ast.Expr // called interface methods and function values by caller
	info    *types.Info
	values  map[string]types.Type // functions that are used as values
	owners  map[string]string     // folders by function
}

// newCallGraph reads the calls in the packages of some folders.
func newCallGraph(t *testing.T, folders []string) *callGraph {
	t.Helper()
	g := &callGraph{
		t: t, files: token.NewFileSet(), exports: map[string]string{}, bodies: folders, checked: map[string]*types.Package{},
		calls: map[string][]string{}, dynamic: map[string][]ast.Expr{}, values: map[string]types.Type{}, owners: map[string]string{},
		info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}},
	}
	arguments := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	for _, folder := range folders {
		arguments = append(arguments, "./"+folder)
	}
	var faults bytes.Buffer
	list := exec.CommandContext(t.Context(), "go", arguments...)
	list.Stderr = &faults
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", list, err, &faults)
	}
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		g.exports[name] = file
	}
	g.others = importer.ForCompiler(g.files, "gc", func(name string) (io.ReadCloser, error) { return os.Open(g.exports[name]) })
	for _, folder := range folders {
		if _, err := g.Import(path.Join(module, folder)); err != nil {
			t.Fatal(err)
		}
	}
	g.link()
	return g
}

// Import returns a package: of the module from its source, so that each type is there
// once, and others as compiled.
func (g *callGraph) Import(name string) (*types.Package, error) {
	folder, ours := strings.CutPrefix(name+"/", module+"/")
	if !ours {
		return g.others.Import(name)
	}
	if p := g.checked[name]; p != nil {
		return p, nil
	}
	folder = path.Join(".", folder)
	paths, err := filepath.Glob(filepath.Join(filepath.FromSlash(folder), "*.go"))
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	for _, file := range paths {
		if strings.HasSuffix(file, "_test.go") || !builds(file) {
			continue
		}
		parsed, err := parser.ParseFile(g.files, file, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, parsed)
	}
	read := slices.Contains(g.bodies, folder)
	checker := types.Config{Importer: g, IgnoreFuncBodies: !read}
	p, err := checker.Check(name, g.files, files, g.info)
	if err != nil {
		return nil, errors.Join(errors.New(folder), err)
	}
	g.checked[name] = p
	for _, file := range files {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && read && f.Body != nil {
				g.read(folder, f)
			}
		}
	}
	return p, nil
}

// builds reports whether a file is built for this system, by its name.
func builds(file string) bool {
	for _, system := range []string{"other", "windows", "darwin"} {
		if strings.HasSuffix(file, "_"+system+".go") {
			return false
		}
	}
	return true
}

// keyOf names a function: folder:Function or folder:Type.Method.
func keyOf(f *types.Func) string {
	f = f.Origin()
	folder := cmp.Or(strings.TrimPrefix(strings.TrimPrefix(f.Pkg().Path(), module), "/"), ".")
	name := f.Name()
	if receiver := f.Signature().Recv(); receiver != nil {
		t := receiver.Type()
		if pointer, ok := t.(*types.Pointer); ok {
			t = pointer.Elem()
		}
		if named, ok := t.(*types.Named); ok {
			name = named.Obj().Name() + "." + name
		}
	}
	return folder + ":" + name
}

// read notes the calls in the body of a function, and the functions that it uses as
// values.
func (g *callGraph) read(folder string, f *ast.FuncDecl) {
	caller := keyOf(g.info.Defs[f.Name].(*types.Func))
	g.owners[caller] = folder
	called := map[*ast.Ident]bool{}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			g.readCall(caller, ast.Unparen(n.Fun), called)
		case *ast.Ident:
			if use, ok := g.info.Uses[n].(*types.Func); ok && !called[n] && use.Pkg() != nil {
				g.values[keyOf(use)] = withoutReceiver(use)
				g.calls[caller] = append(g.calls[caller], keyOf(use))
			}
		case *ast.FuncLit:
			// A literal that is called elsewhere is a value, whose calls are the caller's.
			if signature, ok := g.info.Types[n].Type.(*types.Signature); ok {
				g.values[caller+" "+signature.String()] = signature
				g.owners[caller+" "+signature.String()] = folder
				g.calls[caller+" "+signature.String()] = append(g.calls[caller+" "+signature.String()], caller)
			}
		}
		return true
	})
}

func withoutReceiver(f *types.Func) types.Type {
	s := f.Signature()
	return types.NewSignatureType(nil, nil, nil, s.Params(), s.Results(), s.Variadic())
}

// readCall notes a call.
func (g *callGraph) readCall(caller string, callee ast.Expr, called map[*ast.Ident]bool) {
	var name *ast.Ident
	switch e := callee.(type) {
	case *ast.Ident:
		name = e
	case *ast.SelectorExpr:
		name = e.Sel
		if s := g.info.Selections[e]; s != nil && types.IsInterface(s.Recv()) {
			g.dynamic[caller] = append(g.dynamic[caller], e)
			called[name] = true
			return
		}
	case *ast.IndexExpr:
		g.readCall(caller, e.X, called)
		return
	}
	if name != nil {
		if f, ok := g.info.Uses[name].(*types.Func); ok {
			called[name] = true
			if f.Pkg() != nil {
				g.calls[caller] = append(g.calls[caller], keyOf(f))
			}
			return
		}
	}
	g.dynamic[caller] = append(g.dynamic[caller], callee)
}

// link adds the edges of calls through interfaces and of function values.
func (g *callGraph) link() {
	for caller, callees := range g.dynamic {
		for _, e := range callees {
			if s, ok := e.(*ast.SelectorExpr); ok && g.info.Selections[s] != nil && types.IsInterface(g.info.Selections[s].Recv()) {
				g.linkInterface(caller, g.info.Selections[s])
				continue
			}
			for f, t := range g.values {
				if types.Identical(t, g.info.Types[e].Type.Underlying()) {
					g.calls[caller] = append(g.calls[caller], f)
				}
			}
		}
	}
}

// linkInterface adds the methods that a call through an interface may reach.
func (g *callGraph) linkInterface(caller string, s *types.Selection) {
	face, ok := s.Recv().Underlying().(*types.Interface)
	if !ok {
		return // a type parameter
	}
	for _, p := range g.checked {
		for _, name := range p.Scope().Names() {
			typeName, ok := p.Scope().Lookup(name).(*types.TypeName)
			if !ok || types.IsInterface(typeName.Type()) {
				continue
			}
			pointer := types.NewPointer(typeName.Type())
			if !types.Implements(pointer, face) {
				continue
			}
			if m, _, _ := types.LookupFieldOrMethod(pointer, true, s.Obj().Pkg(), s.Obj().Name()); m != nil {
				if f, ok := m.(*types.Func); ok && f.Pkg() != nil {
					g.calls[caller] = append(g.calls[caller], keyOf(f))
				}
			}
		}
	}
}

// reaches reports whether a function calls another, directly or through functions of
// the packages of both.
func (g *callGraph) reaches(from, to string) bool {
	seen := map[string]bool{from: true}
	for next := []string{from}; len(next) > 0; next = next[1:] {
		for _, callee := range g.calls[next[0]] {
			if callee == to {
				return true
			}
			if folder := g.owners[callee]; !seen[callee] && (folder == g.owners[from] || folder == g.owners[to]) {
				seen[callee] = true
				next = append(next, callee)
			}
		}
	}
	return false
}
