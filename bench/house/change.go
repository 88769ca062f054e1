package main

import (
	"context"
	"fmt"
	"os/exec"
	"path"
	"strings"
)

// change is what a commit changes.
type change struct {
	product []string // files of the product
	own     []string // files of the product in folders that had none before
	support []string // Go, Lua and TypeScript beside the product, without tests
}

// changeOf returns what a commit, or a range A..B, changes.
func changeOf(ctx context.Context, root, revision string) (*change, error) {
	from, to, isRange := strings.Cut(revision, "..")
	if !isRange {
		from, to = revision+"^", revision
	}
	changed, err := git(ctx, root, "diff", "--name-only", "--no-renames", from, to, "--")
	if err != nil {
		return nil, err
	}
	before, err := git(ctx, root, "ls-tree", "-r", "--name-only", from)
	if err != nil {
		return nil, err
	}
	return sortChange(changed, before), nil
}

// sortChange sorts changed files, with the files of the tree before.
func sortChange(changed, before []string) *change {
	folders := map[string]bool{}
	for _, name := range before {
		if isProduct(name) {
			folders[path.Dir(name)] = true
		}
	}
	c := new(change)
	for _, name := range changed {
		switch {
		case languages[path.Ext(name)] == "" || strings.HasSuffix(name, "_test.go"):
		case !isProduct(name):
			c.support = append(c.support, name)
		case folders[path.Dir(name)]:
			c.product = append(c.product, name)
		default:
			c.own = append(c.own, name)
		}
	}
	return c
}

// String lists the files.
func (c *change) String() string {
	var b strings.Builder
	for _, part := range []struct {
		title string
		names []string
	}{
		{"files of the product", c.product},
		{"files in new packages", c.own},
		{"files of Go, Lua and TypeScript beside the product", c.support},
	} {
		fmt.Fprintf(&b, "%d %s\n", len(part.names), part.title)
		for _, name := range part.names {
			fmt.Fprintf(&b, "  %s\n", name)
		}
	}
	return b.String()
}

// git returns the lines that a command of Git prints.
func git(ctx context.Context, root string, args ...string) ([]string, error) {
	out, err := gitText(ctx, root, args...)
	if text := strings.TrimSpace(string(out)); text != "" {
		return strings.Split(text, "\n"), nil
	}
	return nil, err
}

// gitText returns what a command of Git prints.
func gitText(ctx context.Context, root string, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output() //nolint:gosec // revisions are the caller's
	if err != nil {
		return nil, fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}
