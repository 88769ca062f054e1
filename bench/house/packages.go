package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// module is a module of Go with the types of its product.
type module struct {
	path     string
	root     string
	files    *token.FileSet
	packages []*pack
}

// pack is a package of the product, checked from its source.
type pack struct {
	*types.Package
	syntax []*ast.File
	info   *types.Info
}

// listed is a package as `go list` describes it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
	Module                  *struct{ Path string }
}

// loadModule compiles the packages below the root of a module and checks those of the product.
func loadModule(ctx context.Context, root string) (*module, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	list := exec.CommandContext(ctx, "go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,DepOnly,Module", "./...")
	var faults bytes.Buffer
	list.Dir, list.Stderr = root, &faults
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w\n%s", list, err, &faults)
	}
	m := &module{root: root, files: token.NewFileSet()}
	exports := map[string]string{}
	var own []listed
	for in := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := in.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		exports[p.ImportPath] = p.Export
		if !p.DepOnly {
			own, m.path = append(own, p), p.Module.Path
		}
	}
	compiled := importer.ForCompiler(m.files, "gc", func(name string) (io.ReadCloser, error) { return os.Open(exports[name]) })
	for _, p := range own {
		if isApart(m.below(p.ImportPath) + "/x") {
			continue
		}
		checked, err := m.check(&p, compiled)
		if err != nil {
			return nil, err
		}
		m.packages = append(m.packages, checked)
	}
	return m, nil
}

func (m *module) check(p *listed, compiled types.Importer) (*pack, error) {
	checked := &pack{info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}}
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(m.files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		checked.syntax = append(checked.syntax, f)
	}
	var err error
	checked.Package, err = (&types.Config{Importer: compiled}).Check(p.ImportPath, m.files, checked.syntax, checked.info)
	return checked, err
}

// below returns the folder of a package.
func (m *module) below(importPath string) string {
	if below := strings.TrimPrefix(strings.TrimPrefix(importPath, m.path), "/"); below != "" {
		return below
	}
	return "."
}

// nameOf names a type of the module: its folder, a dot and its name; "" for other types,
// and for those without a name.
func (m *module) nameOf(t types.Type) string {
	named, ok := types.Unalias(t).(*types.Named)
	if !ok || named.Obj().Pkg() == nil {
		return ""
	}
	path := named.Obj().Pkg().Path()
	if path != m.path && !strings.HasPrefix(path, m.path+"/") {
		return ""
	}
	return m.below(path) + "." + named.Obj().Name()
}

// branches counts the lines that ask a method of counting what it can do, by file: they
// compare a value with a constant of a type named Method, or have a case for one.
func (m *module) branches() map[string]int {
	methods := map[string]bool{}
	for _, p := range m.packages {
		if t, ok := p.Scope().Lookup("Method").(*types.TypeName); ok {
			methods[m.nameOf(t.Type())] = true
		}
	}
	places := map[string]int{}
	for _, p := range m.packages {
		isMethod := func(e ast.Expr) bool {
			t, ok := p.info.Types[e]
			return ok && t.Value != nil && methods[m.nameOf(t.Type)]
		}
		for _, f := range p.syntax {
			lines := map[int]bool{}
			ast.Inspect(f, func(n ast.Node) bool {
				asks := false
				switch n := n.(type) {
				case *ast.BinaryExpr:
					asks = (n.Op == token.EQL || n.Op == token.NEQ) && (isMethod(n.X) || isMethod(n.Y))
				case *ast.CaseClause:
					asks = slices.ContainsFunc(n.List, isMethod)
				}
				if asks {
					lines[m.files.Position(n.Pos()).Line] = true
				}
				return true
			})
			if len(lines) > 0 {
				places[m.fileOf(f.Pos())] = len(lines)
			}
		}
	}
	return places
}

// fileOf returns the name of a file below the root.
func (m *module) fileOf(at token.Pos) string {
	name, err := filepath.Rel(m.root, m.files.Position(at).Filename)
	if err != nil {
		return m.files.Position(at).Filename
	}
	return filepath.ToSlash(name)
}

// typesBetween returns the types of the module at which its packages meet in executed
// blocks: those that a block names, or calls a method of, in another package than the
// type's. The signature of an executed function counts with it.
func (m *module) typesBetween(executed blocks) []string {
	names := map[string]bool{}
	for _, p := range m.packages {
		for _, f := range p.syntax {
			spans := slices.Collect(maps.Keys(executed[m.fileOf(f.Pos())]))
			for _, d := range f.Decls {
				function, ok := d.(*ast.FuncDecl)
				if !ok || function.Body == nil {
					continue
				}
				signature := span{m.position(function.Pos()), m.position(function.Body.Pos())}
				body := span{signature.to, m.position(function.Body.End())}
				if !slices.ContainsFunc(spans, func(s span) bool { return body.contains(s.from) }) {
					continue
				}
				for _, t := range p.typesIn(function, func(at token.Pos) bool {
					here := m.position(at)
					return signature.contains(here) || slices.ContainsFunc(spans, func(s span) bool { return s.contains(here) })
				}) {
					names[m.nameOf(t)] = true
				}
			}
		}
	}
	delete(names, "")
	return slices.Sorted(maps.Keys(names))
}

// typesIn returns the types of other packages that the executed part of a function names
// or calls a method of.
func (p *pack) typesIn(function *ast.FuncDecl, isExecuted func(token.Pos) bool) (all []types.Type) {
	ast.Inspect(function, func(n ast.Node) bool {
		name, ok := n.(*ast.Ident)
		if !ok || !isExecuted(name.Pos()) {
			return true
		}
		var t types.Type
		switch used := p.info.Uses[name].(type) {
		case *types.TypeName:
			t = used.Type()
		case *types.Func:
			if receiver := used.Signature().Recv(); receiver != nil {
				t = receiver.Type()
			}
		}
		if pointer, ok := t.(*types.Pointer); ok {
			t = pointer.Elem()
		}
		if named, ok := types.Unalias(t).(*types.Named); ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() != p.Path() {
			all = append(all, named)
		}
		return true
	})
	return all
}

func (m *module) position(at token.Pos) position {
	p := m.files.Position(at)
	return position{p.Line, p.Column}
}
