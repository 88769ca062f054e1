package main

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/koalagate/koalagate/bench/origin"
)

// report is the text of the report in docs.
type report struct{ text bytes.Buffer }

func newReport(ctx context.Context) *report {
	r := new(report)
	fmt.Fprintf(&r.text, `# Measurements of the rule language

Written by %s at commit %s, %s, %s, %s/%s, %d × %s.

Times are CPU time of the process, the minimum of several rounds, except for the
reload.
`,
		"`make bench`", origin.Commit(ctx, "rules", "internal/reload", "engine", "internal/store", "internal/wordlist", "bench"), time.Now().UTC().Format(time.DateOnly), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), origin.Processor())
	return r
}

// add adds a section to the report and prints it.
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
