package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// growth is how many lines of code the commits of one subject add, less those they remove.
type growth struct {
	subject string
	commits int
	lines   map[string]int // by language
}

// rest is the subject of the commits that a list does not name.
const rest = "everything else"

// readSubjects reads a list of subjects: a line "since COMMIT", then lines "SUBJECT: COMMIT …".
// Lines that begin with # are comments.
func readSubjects(text string) (base string, subjects []string, of map[string]string, err error) {
	of = map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if after, ok := strings.CutPrefix(line, "since "); ok {
			base = after
			continue
		}
		subject, commits, found := strings.Cut(line, ":")
		if !found {
			return "", nil, nil, fmt.Errorf("the line %q has no subject; write SUBJECT: COMMIT …", line)
		}
		subjects = append(subjects, subject)
		for commit := range strings.FieldsSeq(commits) {
			if before, twice := of[commit]; twice {
				return "", nil, nil, fmt.Errorf("commit %s belongs to %q and to %q", commit, before, subject)
			}
			of[commit] = subject
		}
	}
	if base == "" {
		return "", nil, nil, errors.New("the list has no line: since COMMIT")
	}
	return base, append(subjects, rest), of, nil
}

// growthOf counts what the commits since the first one of a list changed, by their subjects. A
// merge counts as one commit. The first element is the tree at that commit, and the last one
// the tree now, so that those between them are their difference.
func growthOf(ctx context.Context, root, list string) ([]growth, error) {
	text, err := os.ReadFile(list) //nolint:gosec // the file is the caller's
	if err != nil {
		return nil, err
	}
	base, subjects, of, err := readSubjects(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", list, err)
	}
	c := blobs{root: root, code: map[string]int{}}
	const empty = "4b825dc642cb6eb9a060e54bf8d69288fbee4904" // Git's empty tree
	all := make([]growth, 0, len(subjects)+2)
	begin, err := c.between(ctx, empty, base)
	if err != nil {
		return nil, err
	}
	all = append(all, growth{subject: "at " + base, lines: begin})
	for _, subject := range subjects {
		all = append(all, growth{subject: subject, lines: map[string]int{}})
	}
	commits, err := git(ctx, root, "rev-list", "--first-parent", "--reverse", base+"..HEAD")
	if err != nil {
		return nil, err
	}
	for _, commit := range commits {
		lines, err := c.between(ctx, commit+"^1", commit)
		if err != nil {
			return nil, err
		}
		subject := rest
		for short, s := range of {
			if strings.HasPrefix(commit, short) {
				subject = s
			}
		}
		for i := range all {
			if g := &all[i]; g.subject == subject {
				g.commits++
				add(g.lines, lines)
			}
		}
	}
	now, err := c.between(ctx, empty, "HEAD")
	return append(all, growth{subject: "now", lines: now}), err
}

// table returns the growth as a table.
func table(all []growth) string {
	var b strings.Builder
	out := message.NewPrinter(language.English)
	out.Fprintf(&b, "| lines of code | commits | Go | Lua | TypeScript |\n| --- | --- | --- | --- | --- |\n")
	for _, g := range all {
		commits := ""
		if g.commits > 0 {
			commits = strconv.Itoa(g.commits)
		}
		out.Fprintf(&b, "| %s | %s | %d | %d | %d |\n", g.subject, commits, g.lines["Go"], g.lines["Lua"], g.lines["TypeScript"])
	}
	return b.String()
}

// blobs counts the lines of contents that Git keeps.
type blobs struct {
	root string
	code map[string]int // by the name of the content and its language
}

// between returns how many lines of code of the product a tree has more than another one, by
// language.
func (c *blobs) between(ctx context.Context, from, to string) (map[string]int, error) {
	changed, err := git(ctx, c.root, "diff-tree", "-r", "--no-renames", "--no-commit-id", "--abbrev=40", from, to)
	if err != nil {
		return nil, err
	}
	more := map[string]int{}
	for _, line := range changed {
		// :100644 100644 CONTENT CONTENT M	NAME
		fields, name, ok := strings.Cut(line, "\t")
		if f := strings.Fields(fields); ok && len(f) == 5 && isProduct(name) {
			before, err := c.count(ctx, f[2], name)
			if err != nil {
				return nil, err
			}
			after, err := c.count(ctx, f[3], name)
			if err != nil {
				return nil, err
			}
			more[languages[path.Ext(name)]] += after - before
		}
	}
	return more, nil
}

// count counts the lines of a content; one that does not exist has none.
func (c *blobs) count(ctx context.Context, content, name string) (int, error) {
	key := content + path.Ext(name)
	if n, known := c.code[key]; known || strings.Trim(content, "0") == "" {
		return n, nil
	}
	text, err := gitText(ctx, c.root, "cat-file", "blob", content)
	if err != nil {
		return 0, err
	}
	n := countLines(name, text)
	c.code[key] = n
	return n, nil
}

func add(to, lines map[string]int) {
	for language, n := range lines {
		to[language] += n
	}
}
