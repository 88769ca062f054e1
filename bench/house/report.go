package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/koalagate/koalagate/bench/origin"
)

// small is the number of lines of code below which a file is small.
const small = 60

// house is a counted tree.
type house struct {
	files  []file
	module *module
	way    *way
}

// report returns the figures as a page.
func (h *house) report(ctx context.Context) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# House\n\nIn how many places one request, and one idea, lives. Written by `make house` for the product at\n"+
		"commit %s, %s. The figures do not depend on the machine; `go doc ./bench/house`\ndefines what counts.\n\n",
		origin.Commit(ctx, "*.go", "*.lua", "*.ts", "*.tsx", ":!bench"), time.Now().UTC().Format(time.DateOnly))
	out := message.NewPrinter(language.English)
	crossed, between, places := h.crossed(), h.module.typesBetween(h.way.executed), h.module.branches()
	lines, files, few := h.sizes()
	outside := maps.Clone(places)
	maps.DeleteFunc(outside, func(name string, _ int) bool { return path.Dir(name) == "rules" })
	out.Fprintf(&b, "| figure | count |\n| --- | --- |\n")
	out.Fprintf(&b, "| files that one request crosses | %d, and %d of the gRPC front |\n", len(crossed), h.way.front)
	out.Fprintf(&b, "| types at which packages meet on its way | %d |\n", len(between))
	out.Fprintf(&b, "| calls from gRPC to the client of Redis | %d |\n", len(h.way.calls))
	out.Fprintf(&b, "| lines of Go | %d |\n| lines of Lua | %d |\n| lines of TypeScript | %d |\n", lines["Go"], lines["Lua"], lines["TypeScript"])
	out.Fprintf(&b, "| files of Go | %d, of which %d have fewer than %d lines |\n", files, few, small)
	out.Fprintf(&b, "| places outside `rules` that ask a method what it can do | %d in %d files |\n", sum(outside), len(outside))
	out.Fprintf(&b, "| such places in `rules` | %d in %d files |\n\n", sum(places)-sum(outside), len(places)-len(outside))

	fmt.Fprint(&b, strings.TrimSpace(changes), "\n\n## One request\n\nIts calls:\n\n")
	for i, name := range h.way.calls {
		fmt.Fprintf(&b, "%d. `%s`\n", i+1, name)
	}
	fmt.Fprint(&b, "\nIts files:\n\n")
	writeByFolder(&b, crossed, path.Split)
	fmt.Fprint(&b, "\nIts types:\n\n")
	writeByFolder(&b, between, func(name string) (string, string) {
		folder, base, _ := strings.Cut(name, ".")
		return folder, base
	})
	fmt.Fprint(&b, "\n## Lines\n\n| packages | Go | Lua | TypeScript |\n| --- | --- | --- | --- |\n")
	h.writeGroups(&b, out)
	fmt.Fprint(&b, "\n## Places that ask a method\n\n| file | places |\n| --- | --- |\n")
	for _, name := range slices.Sorted(maps.Keys(places)) {
		fmt.Fprintf(&b, "| `%s` | %d |\n", name, places[name])
	}
	return b.String()
}

// crossed returns the files that the request crosses.
func (h *house) crossed() []string {
	return slices.Concat(slices.Sorted(maps.Keys(h.way.executed)), h.way.lua)
}

// sizes returns the lines of code by language, and the numbers of files of Go and of small
// ones.
func (h *house) sizes() (lines map[string]int, files, few int) {
	lines = map[string]int{}
	for _, f := range h.files {
		lines[f.language()] += f.code
		if f.language() == "Go" {
			files++
			if f.code < small {
				few++
			}
		}
	}
	return lines, files, few
}

// writeByFolder lists names by their folders.
func writeByFolder(b *strings.Builder, names []string, split func(string) (folder, base string)) {
	folders := map[string][]string{}
	for _, name := range names {
		folder, base := split(name)
		folder = cmp.Or(strings.TrimSuffix(folder, "/"), ".")
		folders[folder] = append(folders[folder], "`"+base+"`")
	}
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		fmt.Fprintf(b, "* `%s`: %s\n", folder, strings.Join(folders[folder], " "))
	}
}

// writeGroups lists the lines by group of packages.
func (h *house) writeGroups(b *strings.Builder, out *message.Printer) {
	lines := map[string]map[string]int{}
	for _, f := range h.files {
		if lines[f.group()] == nil {
			lines[f.group()] = map[string]int{}
		}
		lines[f.group()][f.language()] += f.code
	}
	for _, group := range slices.Sorted(maps.Keys(lines)) {
		of := lines[group]
		out.Fprintf(b, "| `%s` | %d | %d | %d |\n", group, of["Go"], of["Lua"], of["TypeScript"])
	}
}

func sum(counts map[string]int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}
