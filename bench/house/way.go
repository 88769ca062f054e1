package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// way is what one request crosses.
type way struct {
	executed blocks   // of the request
	front    int      // files of Go that it shares with other calls of gRPC
	lua      []string // files
	calls    []string // functions, the outermost first
}

// blocks are executed blocks of Go, by file of the product.
type blocks map[string]map[span]bool

// span is a part of a file, as coverage profiles write it: the first position, and the
// one after the last.
type span struct{ from, to position }

type position struct{ line, column int }

func (p position) compare(q position) int {
	return cmp.Or(cmp.Compare(p.line, q.line), cmp.Compare(p.column, q.column))
}

// contains reports whether a position is in the span.
func (s span) contains(p position) bool { return s.from.compare(p) <= 0 && p.compare(s.to) < 0 }

// takeWay builds the program of the request with coverage counters, and runs it.
func takeWay(ctx context.Context, m *module, folder string) (*way, error) {
	program, rounds, unused := filepath.Join(folder, "request"), filepath.Join(folder, "rounds"), filepath.Join(folder, "unused")
	for _, d := range []string{rounds, unused} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return nil, err
		}
	}
	if err := start(ctx, m.root, nil, "go", "build", "-cover", "-covermode=atomic", "-coverpkg=./...", "-o", program, "./bench/house/request"); err != nil {
		return nil, err
	}
	if err := start(ctx, m.root, []string{"GOCOVERDIR=" + unused}, program, rounds); err != nil {
		return nil, err
	}
	fronts, err := readRounds(ctx, m, filepath.Join(rounds, "front*"))
	if err != nil {
		return nil, err
	}
	requests, err := readRounds(ctx, m, filepath.Join(rounds, "request*"))
	if err != nil {
		return nil, err
	}
	w := &way{executed: executedIn(requests, fronts)}
	w.front = len(executedIn(requests, nil)) - len(w.executed)
	return w, w.readTrail(m, filepath.Join(rounds, "trail.json"))
}

// start runs a program in a folder to its end.
func start(ctx context.Context, folder string, environ []string, name string, args ...string) error {
	c := exec.CommandContext(ctx, name, args...) //nolint:gosec // the Go tool, and what it built
	c.Dir, c.Env = folder, append(os.Environ(), environ...)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return nil
}

// readRounds reads the coverage counters in the folders of a pattern.
func readRounds(ctx context.Context, m *module, pattern string) (rounds []blocks, err error) {
	folders, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		profile := folder + ".txt"
		if err := start(ctx, m.root, nil, "go", "tool", "covdata", "textfmt", "-i="+folder, "-o="+profile); err != nil {
			return nil, err
		}
		text, err := os.ReadFile(profile) //nolint:gosec // a file of this program
		if err != nil {
			return nil, err
		}
		rounds = append(rounds, readProfile(string(text), m.path))
	}
	return rounds, nil
}

var block = regexp.MustCompile(`(?m)^(.+):(\d+)\.(\d+),(\d+)\.(\d+) \d+ [1-9]\d*$`)

// readProfile returns the executed blocks of a coverage profile.
func readProfile(text, module string) blocks {
	executed := blocks{}
	for _, m := range block.FindAllStringSubmatch(text, -1) {
		name, ours := strings.CutPrefix(m[1], module+"/")
		if !ours || !isProduct(name) {
			continue
		}
		var n [4]int
		for i := range n {
			n[i], _ = strconv.Atoi(m[2+i]) // digits
		}
		if executed[name] == nil {
			executed[name] = map[span]bool{}
		}
		executed[name][span{position{n[0], n[1]}, position{n[2], n[3]}}] = true
	}
	return executed
}

// executedIn returns the blocks that were executed in every round of the request, and in
// none of the front: what some rounds lack is background work of the service.
func executedIn(requests, fronts []blocks) blocks {
	executed := blocks{}
	if len(requests) == 0 {
		return executed
	}
	for name, spans := range requests[0] {
		for s := range spans {
			lacks := func(round blocks) bool { return !round[name][s] }
			if slices.ContainsFunc(requests, lacks) || slices.ContainsFunc(fronts, func(round blocks) bool { return round[name][s] }) {
				continue
			}
			if executed[name] == nil {
				executed[name] = map[span]bool{}
			}
			executed[name][s] = true
		}
	}
	return executed
}

// readTrail reads the stacks and the script of the program.
func (w *way) readTrail(m *module, name string) error {
	text, err := os.ReadFile(name) //nolint:gosec // a file of this program
	if err != nil {
		return err
	}
	var trail struct {
		Stacks []byte
		Script string
		Lines  []int
	}
	if err := json.Unmarshal(text, &trail); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if w.calls = callsOf(string(trail.Stacks), m.path); len(w.calls) == 0 {
		return fmt.Errorf("no goroutine of extauthz waits for Redis:\n%s", trail.Stacks)
	}
	files, err := readTree(m.root)
	if err != nil {
		return err
	}
	sources := map[string]string{}
	for _, f := range files {
		if f.language() == "Lua" {
			source, err := os.ReadFile(filepath.Join(m.root, filepath.FromSlash(f.name)))
			if err != nil {
				return err
			}
			sources[f.name] = string(source)
		}
	}
	w.lua = filesOf(trail.Script, trail.Lines, sources)
	return nil
}

var frame = regexp.MustCompile(`(?m)^(\S+)\(.*\)$`)

// callsOf returns the functions of a module on the stack of the call that waits for
// Redis. The call of a store that hands its work to another goroutine has two stacks.
func callsOf(stacks, module string) []string {
	var asks, waits []string
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		var calls []string
		for _, m := range frame.FindAllStringSubmatch(stack, -1) {
			if name, ours := strings.CutPrefix(m[1], module+"/"); ours {
				calls = append(calls, name)
			}
		}
		slices.Reverse(calls)
		below := func(folder string) bool {
			return slices.ContainsFunc(calls, func(name string) bool { return strings.HasPrefix(name, folder) })
		}
		switch {
		case below("extauthz."):
			asks = calls
		case below("internal/store/") && strings.Contains(stack, "\ngithub.com/redis/go-redis/"):
			waits = calls
		}
	}
	if len(asks) == 0 {
		return nil
	}
	return append(asks, waits...)
}

// filesOf returns the files, by name, whose text has one of the lines of a script.
func filesOf(script string, lines []int, sources map[string]string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		at := strings.Index(script, sources[name])
		if at < 0 {
			continue
		}
		first := 1 + strings.Count(script[:at], "\n")
		last := first + strings.Count(strings.TrimSuffix(sources[name], "\n"), "\n")
		if slices.ContainsFunc(lines, func(line int) bool { return first <= line && line <= last }) {
			names = append(names, name)
		}
	}
	return names
}
