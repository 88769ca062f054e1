package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"github.com/koalagate/koalagate/rules"
)

// colours are how words stand out in a terminal.
type colours bool

// colours are on if the output is a terminal and nobody minds.
func (p *program) colours() colours {
	to := p.stdout
	if out, isOurs := to.(*output); isOurs {
		to = out.Writer
	}
	file, ok := to.(*os.File)
	if !ok || variable(p.environ, "NO_COLOR") != "" || variable(p.environ, "TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return colours(err == nil && info.Mode()&os.ModeCharDevice != 0)
}

// The colours, as a terminal is told them.
const (
	faint  = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

func (c colours) paint(colour, text string) string {
	if !c {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// outcome paints a text in the colour of a rule's outcome.
func (c colours) outcome(of, text string) string {
	switch of {
	case outcomeNotMet, outcomeNotReached:
		return c.paint(faint, text)
	case outcomeDecides:
		return c.paint(yellow, text)
	}
	return text
}

// verdict paints a verdict.
func (c colours) verdict(word string) string {
	if word == "deny" || word == "challenge" {
		return c.paint(red, word)
	}
	return c.paint(green, word)
}

// printExplanation writes an explanation for people, of all rules or of those
// that are met or nearly so.
func printExplanation(w io.Writer, e *explanation, all bool, c colours) {
	if e.Request != nil {
		fmt.Fprintln(w, strings.TrimSpace(rules.Printable(e.Request.Method+" "+e.Request.Target)+" at "+e.Request.Door))
		printParams(w, e.Params, e.absent)
	}
	if e.Refused != nil {
		fmt.Fprintf(w, "verdict: %s before any rule, HTTP status %d: %s\n", c.verdict("deny"), e.Refused.Status, e.Refused.Reason)
		return
	}
	told, others := e.Rules, 0
	if !all {
		told, others = worthTelling(e.Rules)
	}
	for i := range told {
		r := &told[i]
		fmt.Fprintln(w, c.outcome(r.Outcome, fmt.Sprintf("rule %d (%s:%d): %s", r.Return, rules.Printable(r.File), r.Line, ruleText(r))))
	}
	if others > 0 {
		fmt.Fprintln(w, c.paint(faint, fmt.Sprintf("%d more rules are not met; --all tells why each is not", others)))
	}
	printDecision(w, e.Decision, c)
}

// printParams writes the parameters as a table, and those that are not there.
func printParams(w io.Writer, params, absent []explainedParam) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, p := range params {
		fmt.Fprintf(table, "  %s\t%s\t%s\n", shownValue(p.Name), shownValue(p.Value), rules.Printable(p.From))
	}
	for _, p := range absent {
		fmt.Fprintf(table, "  %s\t(absent)\t%s\n", shownValue(p.Name), rules.Printable(p.From))
	}
	// What it is written to is the standard output, where every other line
	// goes without a look too.
	_ = table.Flush()
}

// ruleText says what becomes of a rule.
func ruleText(r *explainedRule) string {
	if r.Outcome == outcomeNotMet {
		return "not met, since " + faultText(r.Failed)
	}
	text := "met, " + r.Limit
	if r.Method != "direct" {
		text += ", counted for " + identityText(r.CountedFor)
	}
	if r.Cost != 1 {
		text += fmt.Sprintf(", each hit weighs %d", r.Cost)
	}
	switch r.Outcome {
	case outcomeDecides:
		return text + fmt.Sprintf(": decides, result %d", r.Result)
	case outcomeShadow:
		text += ": a shadow, never decides"
		if r.Would != "" {
			text += " (would " + r.Would + ")"
		}
		return text
	}
	return text + ": " + r.Outcome
}

// faultText says which conditions fail.
func faultText(faults []explainedFault) string {
	texts := make([]string, len(faults))
	for i, f := range faults {
		value := "absent"
		if f.Value != "" {
			value = shownValue(f.Value)
		}
		texts[i] = fmt.Sprintf("%s is %s and the rule wants %s", f.Name, value, rules.Printable(f.Condition))
	}
	return strings.Join(texts, "; ")
}

func identityText(identity []explainedParam) string {
	if len(identity) == 0 {
		return "all together"
	}
	parts := make([]string, len(identity))
	for i, p := range identity {
		parts[i] = p.Name + "=" + shownValue(p.Value)
	}
	return strings.Join(parts, " ")
}

// printDecision writes the outcome.
func printDecision(w io.Writer, d *explainedDecision, c colours) {
	fmt.Fprintf(w, "verdict: %s, result %d", c.verdict(d.Verdict), d.Result)
	if d.Reason != "" {
		fmt.Fprintf(w, " %q", d.Reason)
	}
	switch {
	case d.Decider != 0:
		fmt.Fprintf(w, ", by rule %d", d.Decider)
	case d.Matched:
		fmt.Fprint(w, ", no rule decides")
	default:
		fmt.Fprint(w, ", no rule is met")
	}
	if d.Status != 0 {
		fmt.Fprintf(w, ", HTTP status %d", d.Status)
	}
	fmt.Fprintln(w)
	if n := d.Nearest; n != nil {
		fmt.Fprintf(w, "nearest to its limit: rule %d, with %d of %d left before this request\n", n.Return, n.Remaining, n.Limit)
	}
}

// shownValue is a value as it can be told from what stands around it.
func shownValue(value string) string {
	if value == "" || !utf8.ValidString(value) || strings.ContainsFunc(value, func(r rune) bool { return r == ' ' || r == '"' || !unicode.IsPrint(r) }) {
		return fmt.Sprintf("%q", value)
	}
	return value
}
