package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// report is the text that is kept in docs.
type report struct{ text bytes.Buffer }

func newReport(ctx context.Context) *report {
	r := new(report)
	fmt.Fprintf(&r.text, `# Measurements of the rule language

Written by %s at commit %s, %s, %s, %s/%s, %d × %s.

Times are CPU time of the process, the least of several rounds, but for those
of the reload. A goal that is missed says so.
`,
		"`make bench`", commit(ctx), time.Now().UTC().Format(time.DateOnly), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), processor())
	return r
}

// add puts a section into the report, and shows it.
func (r *report) add(name string, figures []figure) {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\n| | measured | goal | |\n| --- | --- | --- | --- |\n", name)
	for _, f := range figures {
		verdict := ""
		switch {
		case f.goal != "" && f.met:
			verdict = "met"
		case f.goal != "":
			verdict = "**missed**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", f.what, f.got, f.goal, verdict)
	}
	fmt.Print(b.String())
	r.text.WriteString(b.String())
}

// commit is the commit of the tree, with a + if it has changes.
func commit(ctx context.Context) string {
	hash, err := exec.CommandContext(ctx, "git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	if exec.CommandContext(ctx, "git", "diff", "--quiet", "HEAD", "--", "rules", "reload", "engine", "store", "bench").Run() != nil {
		return strings.TrimSpace(string(hash)) + "+"
	}
	return strings.TrimSpace(string(hash))
}

// processor is the model that Linux tells of, if it does.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "an unknown processor"
	}
	for line := range strings.Lines(string(text)) {
		if name, model, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	return "an unknown processor"
}
