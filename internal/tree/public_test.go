package tree

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/rules"
)

// publicPackages are the packages for Go programs.
var publicPackages = []string{".", "engine", "middleware", "rules"}

// Other modules cannot import internal packages, so nothing that a public package
// exports may name one.
func TestPublicPackagesNameNoInternalPackage(t *testing.T) {
	for _, folder := range publicPackages {
		namesNone(t, folder, "/internal/")
	}
}

// namesNone checks that no exported declaration of a package names a package whose path
// contains a text.
func namesNone(t *testing.T, folder, path string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.FileExports(file) // drops what is not exported
		internal := internalImports(t, file, path)
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
				continue
			}
			if f, ok := d.(*ast.FuncDecl); ok {
				f.Body = nil
			}
			ast.Inspect(d, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					if id, ok := s.X.(*ast.Ident); ok && internal[id.Name] {
						t.Errorf("%v: an exported declaration names %s.%s", fset.Position(s.Pos()), id.Name, s.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

// The doors and their front are for the service, and say so. They may name internal
// packages, but not the stores.
func TestDoorsPromiseNothingAndNameNoStore(t *testing.T) {
	for _, folder := range []string{"extauthz", "ratelimit", "nginx", "koala", "rlqs", "envoy"} {
		text, err := os.ReadFile(filepath.Join(folder, "server.go"))
		if err != nil || !strings.Contains(string(text), "its API may change in any release") {
			t.Errorf("%s: %v; want the package comment to say what is promised", folder, err)
		}
		namesNone(t, folder, "/internal/store")
	}
}

// internalImports returns the names under which a file imports packages whose paths
// contain a text.
func internalImports(t *testing.T, file *ast.File, within string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(path, within) {
			continue
		}
		name := path[strings.LastIndex(path, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = true
	}
	return names
}

// ownMark marks what public packages export because packages of this module need it. Go
// programs are promised nothing about it.
const ownMark = "For koalagate's own programs, may change."

// ownParts are what has the mark.
var ownParts = []string{
	"engine.Assignment", "engine.AssignmentKind", "engine.AssignmentTime", "engine.Basis", "engine.Call.Charges", "engine.Call.RefuseExcess", "engine.Call.Unobserved", "engine.Counter",
	"engine.Decision.Single", "engine.Engine.Assign", "engine.Engine.Basis", "engine.Engine.Counters", "engine.Engine.ResetCounter", "engine.Lent",
	"engine.ObserveMatches", "engine.ObserveReports", "engine.ObserveSettlements", "engine.ObserveTooManyWaiting",
	"engine.Problem", "engine.ProblemOf", "engine.Usage", "engine.ValidReceipt", "engine.WaitLimit",
	"engine.WithWaitLimits",
	"rules.ComparePausing", "rules.DerivesOtherwise", "rules.FormatPausing", "rules.Forward.Value", "rules.IsDerived", "rules.JWT.Explain", "rules.JWT.IsAt", "rules.JWT.IsUsed", "rules.JWT.Terms", "rules.Matches.Identify",
	"rules.ParamSource.Claim", "rules.ParamSource.LookUp",
	"rules.Params.FullName", "rules.Params.SetFrom", "rules.Params.SetNamed", "rules.Params.Shorten",
	"rules.ProtectsKeys", "rules.Renumbered",
	"rules.Rule.AppendPolicyName", "rules.Rule.Charges", "rules.Rule.Free", "rules.Rule.Unassignable", "rules.Rule.UsedHits", "rules.Rule.WithCount",
	"rules.Set.HasWaits", "rules.Set.IsParsed", "rules.Set.MayHaveToken", "rules.Set.Needs", "rules.Set.OpenDict", "rules.Set.OpenKeys", "rules.Set.OpenTable", "rules.Set.ReceiptTime",
	"rules.Set.RouteConstants", "rules.Set.Timed", "rules.Set.Uses", "rules.Set.WithoutRoutes",
}

// A comment promises its name to Go programs unless it ends with the mark, and the list has
// every name with the mark.
func TestOwnPartsAreMarked(t *testing.T) {
	var marked []string
	for _, folder := range publicPackages {
		fset := token.NewFileSet()
		for _, file := range productFiles(t, fset, folder) {
			for name, text := range docsOf(file) {
				text = strings.Join(strings.Fields(text), " ")
				if strings.HasSuffix(text, ownMark) {
					marked = append(marked, folder+"."+name)
				} else if strings.Contains(text, "koalagate's own programs") {
					t.Errorf("%s.%s: end its comment with %q", folder, name, ownMark)
				}
			}
		}
	}
	slices.Sort(marked)
	if !slices.Equal(marked, ownParts) {
		t.Errorf("the mark is on\n%s\nwant it on\n%s", strings.Join(marked, "\n"), strings.Join(ownParts, "\n"))
	}
}

// docsOf returns the comments of what a file exports: functions as F, methods and fields as
// T.F, types, constants and variables.
func docsOf(file *ast.File) map[string]string {
	docs := make(map[string]string)
	ast.FileExports(file)
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				of := d.Recv.List[0].Type
				if pointer, ok := of.(*ast.StarExpr); ok {
					of = pointer.X
				}
				name = types.ExprString(of) + "." + name
			}
			docs[name] = d.Doc.Text()
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					docs[s.Name.Name] = d.Doc.Text() + s.Doc.Text()
					fieldDocs(docs, s)
				case *ast.ValueSpec:
					for _, name := range s.Names {
						docs[name.Name] = d.Doc.Text() + s.Doc.Text()
					}
				}
			}
		}
	}
	return docs
}

// fieldDocs adds the comments of the fields of a struct and the methods of an interface.
func fieldDocs(docs map[string]string, s *ast.TypeSpec) {
	ast.Inspect(s.Type, func(n ast.Node) bool {
		if f, ok := n.(*ast.Field); ok {
			for _, name := range f.Names {
				docs[s.Name.Name+"."+name.Name] = f.Doc.Text() + f.Comment.Text()
			}
		}
		return true
	})
}

func TestPublicPackagesHaveExamples(t *testing.T) {
	for _, folder := range publicPackages {
		text, err := os.ReadFile(filepath.Join(folder, "example_test.go"))
		if err != nil || !strings.Contains(string(text), "// Output:") {
			t.Errorf("%s: %v; want example_test.go with an example that runs", folder, err)
		}
	}
}

// Zero and unknown values of package rules match nothing and allow nothing.
func TestZeroRulesAllowNothing(t *testing.T) {
	var matches rules.Matches
	set := new(rules.Set)
	set.Match(nil, &matches)
	set.Match(new(rules.Params), &matches)
	if len(matches.List) > 0 || set.Rule(1) != nil || set.Uses("uid") {
		t.Errorf("a zero Set matches %v", matches.List)
	}
	if set, findings := rules.Parse(nil, rules.Options{}); set != nil || !findings.HasErrors() {
		t.Errorf("no sources are the rule set %v; want an error", set)
	}
	if new(rules.Set).Route("GET", []string{"a"}, new(rules.Params)) {
		t.Error("the routes of a zero Set match")
	}
	if n := new(rules.Dict).Len(); n != 0 {
		t.Errorf("a zero Dict has %d entries", n)
	}
	if v := (*rules.Result)(nil).Verdict(); v == rules.Allow {
		t.Error("a nil Result allows")
	}
	if (&rules.Rule{}).Counts() {
		t.Error("a zero Rule counts")
	}
	for _, v := range []rules.Verdict{rules.VerdictUnset, rules.Challenge + 1, math.MaxUint8} {
		d := engine.Decision{Verdict: v, Answers: []engine.Answer{{Verdict: v}}}
		if d.Allowed() || v.String() == rules.Allow.String() || d.Answers[0].DecisionWord() != "deny" {
			t.Errorf("verdict %d: %s, %s; want it denied", v, v, d.Answers[0].DecisionWord())
		}
	}
}

// A rule set whose only entries refuse refuses requests that no rule matches.
func TestEntriesDecideWithoutRules(t *testing.T) {
	const text = "[rules]\n[result]\n0 : {\"Err_no\":10}\n1 : {\"Err_no\":0}\n"
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{AllowEmpty: true})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	d, err := engine.New(set).Decide(context.Background(), &engine.Call{Op: engine.Take, Inputs: []engine.Input{{}}})
	if err != nil || d.Allowed() {
		t.Errorf("%+v, %v; want it refused", d, err)
	}
}
