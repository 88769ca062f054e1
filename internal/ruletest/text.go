package ruletest

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/koalagate/koalagate/internal/explain"
	"github.com/koalagate/koalagate/internal/printable"
)

// WriteText writes the result for people: a line if all cases passed, and otherwise each
// failure with the expected and the actual values and the explanation of the answer.
// Errors of w are not reported.
func (r *Result) WriteText(w io.Writer) {
	path := printable.Text(r.Path)
	if r.Err != nil {
		fmt.Fprintf(w, "FAIL %s: %s\n%s\n", path, r.problem(), indent(printableLines(r.Err.Error())))
		return
	}
	if n := r.Failed(); n > 0 {
		for i := range r.Cases {
			if c := &r.Cases[i]; c.Failure != nil {
				fmt.Fprintf(w, "FAIL %s:%d: %s\n%s\n", path, c.Failure.Line, printable.Text(c.Name), indent(c.Failure.text()))
			}
		}
		fmt.Fprintf(w, "FAIL %s: %d of %s failed\n", path, n, printable.Count(len(r.Cases), "case"))
		return
	}
	fmt.Fprintf(w, "ok   %s: %s\n", path, printable.Count(len(r.Cases), "case"))
}

// text describes the failure in several lines.
func (f *Failure) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "step %d", f.Step)
	if !f.At.IsZero() {
		fmt.Fprintf(&b, " at %s", f.At.Format(time.DateTime+" MST"))
	}
	if f.Calls > 1 && f.Call > 0 {
		fmt.Fprintf(&b, ", call %d of %d", f.Call, f.Calls)
	}
	if f.Err != nil {
		return b.String() + ": " + printableLines(f.Err.Error())
	}
	b.WriteString(" (- want, + got):\n")
	for _, d := range f.Wrong {
		field := printable.Text(d.Field)
		fmt.Fprintf(&b, "- %s: %s\n+ %s: %s\n", field, printable.Text(d.Want), field, printable.Text(d.Got))
	}
	f.Report.WriteText(&b, explain.TextOptions{})
	return strings.TrimSuffix(b.String(), "\n")
}

// printableLines returns a text of several lines without control characters.
func printableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = printable.Text(lines[i])
	}
	return strings.Join(lines, "\n")
}

// indent indents every line.
func indent(text string) string {
	return "  " + strings.ReplaceAll(text, "\n", "\n  ")
}
