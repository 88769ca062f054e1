package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/display"
	"github.com/koalagate/koalagate/internal/findings"
	"github.com/koalagate/koalagate/internal/printable"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/internal/replay"
	"github.com/koalagate/koalagate/internal/trace"
	"github.com/koalagate/koalagate/internal/whatif"
	"github.com/koalagate/koalagate/rules"
)

// errMaskedTrace is the error of a trace by which rules cannot be compared.
var errMaskedTrace = errors.New("cannot compare by the trace: it masks values that rules compare")

// The bounds of the output: identities of a rule, and rules with identities.
const (
	diffRules      = 1000
	diffIdentities = 10_000
)

func (p *program) diffCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "diff OLD NEW [TRACE…]",
		Short: "Print what a change of the rules changes",
		Long: "Compare two rule sets, each a rule file or a folder with *.conf files. The output names the\n" +
			"rules that are new, gone or changed, by their numbers, word lists with other entries, and\n" +
			"changed sections. With a trace, such as the decision log of `serve`, both sets decide it, and\n" +
			"the output names who would be newly refused and newly let through, each identity with its\n" +
			"count. The exit code is 0 without differences, 1 with differences, and 2 if something cannot\n" +
			"be read or compared.",
		Example: "  koalagate diff /etc/koalagate/rules.conf new.conf\n" +
			"  koalagate diff old.conf new.conf decisions.jsonl decisions-1.jsonl.gz\n" +
			"  zcat decisions-*.gz | koalagate diff old/ new/ -",
		Args: twoRuleSets,
	}
	var files reload.Files
	top := 100
	c.Flags().IntVar(&top, "top", top, "`NUMBER` of identities to print of each kind; 0 prints all")
	addParserFlags(c, &files)
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		old, err := p.loadSide(files, args[0])
		if err != nil {
			return err
		}
		now, err := p.loadSide(files, args[1])
		if err != nil {
			return err
		}
		changes := rules.Compare(old, now)
		p.printChanges(changes)
		isSame := changes.Empty()
		if len(args) > 2 {
			masked := make(map[string]bool) // parameters; both rule sets may compare one
			d, err := replay.Diff(ctx, replay.DiffOptions{
				Old: old, New: now, Traces: trace.OpenFiles(args[2:], p.stdin),
				OnMasked: func(m replay.MaskedParam) {
					if !masked[m.Name] {
						display.Printf(p.stderr, "koalagate: %s\n", m)
					}
					masked[m.Name] = true
				},
				OnInexact: p.printReason, Rules: diffRules, Identities: diffIdentities,
			})
			switch {
			case err != nil:
				return trouble{err}
			case len(masked) > 0:
				return trouble{errMaskedTrace}
			}
			p.printDifference(d, top)
			isSame = isSame && d.Sum() == 0
		}
		if !isSame {
			return errReported
		}
		return nil
	}
	return c
}

// twoRuleSets rejects a command line without two rule sets.
func twoRuleSets(_ *cobra.Command, args []string) error {
	if len(args) < 2 {
		return errors.New("missing rule set; want the old and the new one")
	}
	return nil
}

// loadSide reads one of the two rule sets. An error is trouble.
func (p *program) loadSide(files reload.Files, path string) (*rules.Set, error) {
	files.Paths = []string{path}
	set, list, err := files.Load()
	switch {
	case err != nil:
		return nil, trouble{err}
	case list.HasErrors():
		findings.WriteText(p.stderr, list)
		return nil, trouble{fmt.Errorf("%s has errors", path)}
	}
	return set, nil
}

// printChanges prints the changes of the rules, a line each.
func (p *program) printChanges(c *rules.Changes) {
	for _, r := range c.Added {
		display.Printf(p.stdout, "new      rule %s (%s)\n", ruleTitle(r), r.Pos)
	}
	for _, r := range c.Removed {
		display.Printf(p.stdout, "gone     rule %s (%s)\n", ruleTitle(r), r.Pos)
	}
	for _, r := range c.Changed {
		display.Printf(p.stdout, "changed  rule %s: %s (%s)\n", ruleTitle(r.After), strings.Join(r.Parts, ", "), r.After.Pos)
	}
	for _, l := range c.Lists {
		display.Printf(p.stdout, "changed  list %s: %s added, %d removed\n", l.Name, printable.Count(l.Added, "entry"), l.Removed)
	}
	for _, name := range c.Tables {
		display.Printf(p.stdout, "changed  table %s\n", name)
	}
	for _, name := range c.Tokens {
		display.Printf(p.stdout, "changed  token %s\n", name)
	}
	for _, number := range c.Results {
		display.Printf(p.stdout, "changed  result %d\n", number)
	}
	for _, s := range []struct {
		changed bool
		name    string
	}{{c.Reordered, "order of the rules"}, {c.Params, "[params]"}, {c.Routes, "[routes]"}, {c.Forwards, "[forward]"}, {c.Zone, "time zone"}} {
		if s.changed {
			display.Printf(p.stdout, "changed  %s\n", s.name)
		}
	}
	if c.Empty() {
		fmt.Fprintln(p.stdout, "the rules are alike")
	}
}

// ruleTitle returns the number of a rule and its name.
func ruleTitle(r *rules.Rule) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", r.Return, r.Name))
}

// printDifference prints who would notice the change.
func (p *program) printDifference(d *replay.Difference, top int) {
	display.Printf(p.stdout, "\n%s: %d newly refused, %d newly let through\n", printable.Count(d.Calls, "call"), d.NewlyRefused, d.NewlyAllowed)
	p.printIdentities("newly refused", d.Rules, func(n whatif.Differences) int64 { return n.NewlyRefused }, top)
	p.printIdentities("newly let through", d.Rules, func(n whatif.Differences) int64 { return n.NewlyAllowed }, top)
}

// printIdentities prints the identities of rules with a count above 0, the highest first.
func (p *program) printIdentities(title string, found []whatif.Rule, count func(whatif.Differences) int64, top int) {
	type row struct {
		rule, count int64
		identity    string
	}
	var list []row
	for _, r := range found {
		for _, x := range r.Identities {
			if n := count(x.Differences); n > 0 {
				list = append(list, row{r.Rule, n, x.Identity})
			}
		}
	}
	if len(list) == 0 {
		return
	}
	slices.SortFunc(list, func(a, b row) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.rule, b.rule), cmp.Compare(a.identity, b.identity))
	})
	display.Printf(p.stdout, "\n%s\n", title)
	shown := list
	if top > 0 {
		shown = list[:min(top, len(list))]
	}
	t := tabwriter.NewWriter(p.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "rule\tcount\tidentity")
	for _, x := range shown {
		display.Printf(t, "%d\t%d\t%s\n", x.rule, x.count, x.identity)
	}
	_ = t.Flush() // p.stdout keeps the error
	if more := len(list) - len(shown); more > 0 {
		display.Printf(p.stdout, "and %d more\n", more)
	}
}
