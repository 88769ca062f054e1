package main

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// file is a file of the product.
type file struct {
	name string // path with slashes below the root of the module
	code int    // lines without comments and blank lines
}

// language is the language of the file: "Go", "Lua" or "TypeScript".
func (f *file) language() string { return languages[path.Ext(f.name)] }

// group is the folder of the file at the top of the tree, "." for the root, or right below
// internal.
func (f *file) group() string {
	parts := strings.Split(path.Dir(f.name), "/")
	if parts[0] == "internal" && len(parts) > 1 {
		return path.Join(parts[:2]...)
	}
	return parts[0]
}

var (
	languages = map[string]string{".go": "Go", ".lua": "Lua", ".ts": "TypeScript", ".tsx": "TypeScript"}
	// apart are the folders whose files do not belong to the product.
	apart = []string{"bench", "deploy", "docs", "e2e", "examples", "node_modules", "storetest", "testdata", "wiretest", "xdstest"}
)

// isProduct reports whether a file belongs to the product: it is Go, Lua or TypeScript
// that users run.
func isProduct(name string) bool {
	return languages[path.Ext(name)] != "" && !strings.HasSuffix(name, "_test.go") && !isApart(name)
}

func isApart(name string) bool {
	return slices.ContainsFunc(strings.Split(path.Dir(name), "/"), func(folder string) bool {
		return slices.Contains(apart, folder) || folder != "." && strings.HasPrefix(folder, ".")
	})
}

// readTree returns the files of the product below a folder, by name.
func readTree(root string) (files []file, err error) {
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(root, name)
		if below = filepath.ToSlash(below); err != nil || below == "." {
			return err
		}
		if entry.IsDir() {
			if isApart(below + "/x") {
				return filepath.SkipDir
			}
			return nil
		}
		if !isProduct(below) {
			return nil
		}
		text, err := os.ReadFile(name) //nolint:gosec // a file of the tree
		files = append(files, file{below, countLines(below, text)})
		return err
	})
	return files, err
}

// countLines counts the lines that have code.
func countLines(name string, text []byte) int {
	if path.Ext(name) == ".go" {
		return countGo(text)
	}
	line, begin, end := "//", "/*", "*/"
	if path.Ext(name) == ".lua" {
		line, begin, end = "--", "--[[", "]]"
	}
	n, inside := 0, false
	for l := range strings.Lines(string(text)) {
		l = strings.TrimSpace(l)
		switch {
		case inside:
			inside = !strings.Contains(l, end)
		case strings.HasPrefix(l, begin):
			inside = !strings.Contains(l, end)
		case l != "" && !strings.HasPrefix(l, line):
			n++
		}
	}
	return n
}

// countGo counts the lines with tokens of Go. The blank lines of a raw string are none.
func countGo(text []byte) int {
	files := token.NewFileSet()
	f := files.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(f, text, nil, 0)
	lines := map[int]bool{}
	for {
		at, kind, literal := s.Scan()
		if kind == token.EOF {
			return len(lines)
		}
		if kind == token.SEMICOLON && literal == "\n" {
			continue
		}
		first := f.Line(at)
		for i, part := range strings.Split(literal, "\n") {
			if i == 0 || strings.TrimSpace(part) != "" {
				lines[first+i] = true
			}
		}
	}
}
