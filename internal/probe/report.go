package probe

import (
	"fmt"
	"io"
	"strings"

	"github.com/koalagate/koalagate/internal/printable"
)

// Kind classifies an item of a report.
type Kind int

// The kinds of items.
const (
	OK    Kind = iota // as it should be
	Note              // possibly intended
	Fault             // wrong
)

// String returns the kind as text shows it.
func (k Kind) String() string { return [...]string{"ok", "note", "FAULT"}[k] }

// Item is one observation.
type Item struct {
	Kind  Kind
	Topic string // a word such as "refusal" or "headers"
	Text  string
	// Advice explains what to do, in lines.
	Advice []string
}

// WriteText writes the item for people. Errors of w are not reported.
func (i Item) WriteText(w io.Writer) {
	fmt.Fprintf(w, "%-6s%-12s %s\n", i.Kind, i.Topic, i.Text)
	for _, line := range i.Advice {
		fmt.Fprintf(w, "%-6s%-12s %s\n", "", "", line)
	}
}

// Report is the result of a probe: its items in the order in which they were
// observed.
type Report struct{ Items []Item }

// Faults returns the number of items that are faults.
func (r *Report) Faults() int {
	n := 0
	for i := range r.Items {
		if r.Items[i].Kind == Fault {
			n++
		}
	}
	return n
}

// WriteText writes all items and the summary for people. Errors of w are not
// reported.
func (r *Report) WriteText(w io.Writer) {
	for _, i := range r.Items {
		i.WriteText(w)
	}
	fmt.Fprintln(w, r.Summary())
}

// Summary returns the result in a few words.
func (r *Report) Summary() string {
	if n := r.Faults(); n > 0 {
		return printable.Count(n, "fault")
	}
	return "no faults"
}

func (p *prober) add(i Item) {
	p.report.Items = append(p.report.Items, i)
	if p.OnItem != nil {
		p.OnItem(i)
	}
}

func (p *prober) ok(topic, format string, args ...any) {
	p.add(Item{Kind: OK, Topic: topic, Text: fmt.Sprintf(format, args...)})
}

func (p *prober) note(topic, text string, advice ...string) {
	p.add(Item{Kind: Note, Topic: topic, Text: text, Advice: advice})
}

// fault adds a fault. Advice may have several lines.
func (p *prober) fault(topic, text, advice string) {
	p.add(Item{Kind: Fault, Topic: topic, Text: text, Advice: strings.Split(advice, "\n")})
}
