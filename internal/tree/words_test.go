package tree

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The texts that users read state what rules and counters do in the words of the documentation,
// and count one thing as one.
func TestTextsAvoidClumsyWords(t *testing.T) {
	clumsy := regexp.MustCompile(`(?i)\bpass(es|ed)? over\b|\bas new in\b|\bpredecessor\b|(^|[^.,\d])\b1 (calls|entries|exceptions|files|lists|requests|rules|versions)\b|\.length\} (files|lists|rules|versions)\b`)
	texts := usersPages(t)
	sources, err := filepath.Glob("internal/page/web/src/*.ts*")
	if err != nil || len(sources) < 10 {
		t.Fatalf("%d sources of the page, %v", len(sources), err)
	}
	for _, path := range append(sources, "internal/adminapi/openapi.yaml", "koalagate.example.yaml") {
		texts[path] = readText(t, path)
	}
	literals := 0
	for _, path := range sourceFiles(t) {
		if filepath.Ext(path) != ".go" {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, readText(t, path), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		ast.Inspect(parsed, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				literals++
				all.WriteString(literal.Value + "\n")
			}
			return true
		})
		texts[path] = all.String()
	}
	if literals < 10_000 {
		t.Errorf("only %d literals", literals)
	}
	for path, text := range texts {
		for line := range strings.Lines(text) {
			if found := clumsy.FindString(line); found != "" {
				t.Errorf("%s says %q: %.200s", path, found, line)
			}
		}
	}
}
