package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/reload"
	"github.com/koalagate/koalagate/rules"
	"github.com/koalagate/koalagate/store"
)

func (p *program) explainCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "explain --rules PATH… NAME=VALUE…",
		Short: "Say which rules a request meets, and why",
		Long: "Say which rules a request with these parameters meets, in order, what each counts,\n" +
			"and what the verdict is. It is that of a first request: no counter is read or touched.",
		Example: "  koalagate explain --rules rules.conf act=vote uid=7",
	}
	files := reload.Files{}
	c.Flags().StringArrayVar(&files.Paths, "rules", nil, "rule `PATH`: a file, or a folder of *.conf; may be given several times")
	hits := c.Flags().Uint64("hits", 1, "number of `HITS` that the request stands for")
	addFileFlags(c, &files)
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(files.Paths) == 0 {
			return errors.New("there are no rules; give --rules PATH")
		}
		params, err := parseParams(args)
		if err != nil {
			return err
		}
		return p.explain(c.Context(), files, params, *hits)
	}
	return c
}

// parseParams reads parameters as name=value.
func parseParams(args []string) (*rules.Params, error) {
	params := new(rules.Params)
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%q is no parameter; want name=value", arg)
		}
		if _, twice := params.Get(name); twice {
			return nil, fmt.Errorf("the parameter %s is given twice", name)
		}
		params.Set(name, value)
	}
	return params, nil
}

func (p *program) explain(ctx context.Context, files reload.Files, params *rules.Params, hits uint64) error {
	set, findings, err := files.Load()
	if err != nil {
		return failure{err}
	}
	printFindings(p.stderr, findings)
	if findings.HasErrors() {
		return errTold
	}
	memory := store.NewMemory(store.MemoryOptions{})
	defer memory.Close()
	d, err := engine.New(memory, set).Decide(ctx, &engine.Call{
		Door: "explain", Op: engine.Browse, Sets: []engine.Input{{Params: params, Hits: hits}},
	})
	if err != nil {
		return failure{err}
	}
	e := explanation{w: p.stdout, params: params, answer: &d.Sets[0]}
	e.walk(set)
	e.verdict(d)
	return nil
}

// explanation words one decision for people.
type explanation struct {
	w       io.Writer
	params  *rules.Params
	answer  *engine.Answer
	decided bool // a rule above has decided
}

// walk writes a line for each rule, in the order in which they are tried.
func (e *explanation) walk(set *rules.Set) {
	var met rules.Matches
	set.Match(e.params, &met)
	next := 0
	for _, r := range set.Rules {
		fmt.Fprintf(e.w, "rule %d (%s:%d): ", r.Return, r.Pos.File, r.Pos.Line)
		if next < len(met.List) && met.List[next].Rule == r {
			fmt.Fprintln(e.w, e.met(&met.List[next]))
			next++
			continue
		}
		fmt.Fprintln(e.w, e.notMet(r))
	}
}

// notMet says which condition failed.
func (e *explanation) notMet(r *rules.Rule) string {
	c := r.Explain(e.params)
	if c == nil {
		return "not met"
	}
	value, _ := e.params.Get(c.Name)
	if strings.TrimSpace(value) == "" {
		return fmt.Sprintf("not met, since %s is absent and the rule wants %s", c.Name, c)
	}
	return fmt.Sprintf("not met, since %s is %s and the rule wants %s", c.Name, shownValue(value), c)
}

// met says what a rule that is met does.
func (e *explanation) met(m *rules.Match) string {
	text := "met, " + limit(m.Rule)
	if m.Rule.Counts() {
		text += ", counted for " + e.identity(m)
	}
	if m.Cost != 1 {
		text += fmt.Sprintf(", each hit weighs %d", m.Cost)
	}
	switch {
	case e.decided:
		text += ": not reached"
	case m.Rule == e.answer.Decider:
		e.decided = true
		text += fmt.Sprintf(": decides, result %d", m.Rule.Result.Number)
	case m.Rule.Shadow:
		text += ": a shadow, never decides" + e.shadow(m.Rule)
	default:
		text += ": passes"
	}
	return text
}

// shadow says what a shadow rule would have done, if anything.
func (e *explanation) shadow(r *rules.Rule) string {
	for _, s := range e.answer.Shadow {
		if s.Rule == r {
			return fmt.Sprintf(" (would %s)", s.Verdict)
		}
	}
	return ""
}

// limit is a rule's method and thresholds in words.
func limit(r *rules.Rule) string {
	window := fmt.Sprintf("%d s", r.Time)
	if r.Time == rules.Day {
		window = "a calendar day"
	}
	switch r.Method {
	case rules.Count:
		return fmt.Sprintf("at most %d in %s", r.Count, window)
	case rules.Base:
		return fmt.Sprintf("%d free a day, then at most %d in %d s", r.Base, r.Count, r.Time)
	case rules.Leak:
		return fmt.Sprintf("at most %d in any %d s", r.Count, r.Time)
	case rules.Token:
		return fmt.Sprintf("a bucket of %d, refilled with %d in %d s", r.Burst, r.Count, r.Time)
	default:
		return r.Method.String()
	}
}

// identity is what the rule's counter belongs to. Its values are those that
// the rule counts by, which may be spelt otherwise than the request's.
func (e *explanation) identity(m *rules.Match) string {
	var names []string
	for _, c := range m.Rule.Conditions {
		// A condition that holds for an absent value adds nothing.
		if value, _ := e.params.Get(c.Name); !c.Joint && strings.TrimSpace(value) != "" {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	parts := make([]string, 0, len(names))
	for i, value := range identityValues(m.Identity) {
		parts = append(parts, names[i]+"="+shownValue(value))
	}
	if len(parts) == 0 {
		return "all together"
	}
	return strings.Join(parts, " ")
}

// identityValues takes an identity apart: after their number, values with
// their lengths before them.
func identityValues(identity []byte) []string {
	var values []string
	for rest := identity[1:]; len(rest) > 0; {
		length, n := binary.Uvarint(rest)
		values = append(values, string(rest[n:n+int(length)]))
		rest = rest[n+int(length):]
	}
	return values
}

// verdict writes the outcome.
func (e *explanation) verdict(d *engine.Decision) {
	a := e.answer
	fmt.Fprintf(e.w, "verdict: %s, result %d", a.DecisionWord(), a.Result.Number)
	if a.Result.StrReason != "" {
		fmt.Fprintf(e.w, " %q", a.Result.StrReason)
	}
	switch {
	case a.Decider != nil:
		fmt.Fprintf(e.w, ", by rule %d", a.Decider.Return)
	case a.Matched:
		fmt.Fprint(e.w, ", no rule decides")
	default:
		fmt.Fprint(e.w, ", no rule is met")
	}
	if d.Verdict != rules.Allow {
		fmt.Fprintf(e.w, ", HTTP status %d", d.Refusal().Status)
	}
	fmt.Fprintln(e.w)
	if d.Verdict == rules.Allow && a.Limited {
		fmt.Fprintf(e.w, "nearest to its limit: rule %d, with %d of %d left before this request\n", a.Quota.Rule.Return, a.Quota.Remaining, a.Quota.Limit)
	}
}

// shownValue is a value as it can be told from what stands around it.
func shownValue(value string) string {
	if value == "" || strings.ContainsFunc(value, func(r rune) bool { return r == ' ' || r == '"' || !unicode.IsPrint(r) }) {
		return fmt.Sprintf("%q", value)
	}
	return value
}
