package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/display"
	"github.com/koalagate/koalagate/internal/printable"
	"github.com/koalagate/koalagate/internal/trial"
)

func (p *program) trialCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "trial",
		Short: "Print what rules on trial would change",
		Long: "Print how many live requests the rules on trial would newly refuse and newly allow, by rule, and the\n" +
			"identities that would notice most. `koalagate publish --trial 15m PATH` tries a version at all\n" +
			"instances with published rules, and `koalagate serve --trial PATH` tries rule files.",
		Example: "  koalagate trial\n  koalagate trial --stop",
		Args:    noArguments,
	}
	i := instance{installed: p.installed}
	stop := false
	format := choice{value: "text", among: []string{"text", "json"}}
	i.add(c)
	c.Flags().BoolVar(&stop, "stop", false, "end the trial; the rules in force stay")
	c.Flags().Var(&format, "format", "`FORMAT` of the report: text or json (docs/formats.md)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		method := http.MethodGet
		if stop {
			method = http.MethodDelete
		}
		var report trial.Report
		if err := i.call(c.Context(), p.environ, method, "trial", nil, &report); err != nil {
			return err
		}
		if format.value == "json" {
			return display.JSON(p.stdout, &report)
		}
		return writeTrial(p.stdout, &report)
	}
	return c
}

// writeTrial prints a trial as text.
func writeTrial(w io.Writer, t *trial.Report) error {
	what := "rule files"
	if t.Version > 0 {
		what = fmt.Sprintf("version %d", t.Version)
	}
	display.Printf(w, "%s, hash %.12s: %s", what, t.Hash, t.State)
	switch {
	case t.Detail != "":
		display.Printf(w, ": %s\n", t.Detail)
	case t.Until != nil:
		display.Printf(w, " until %s, then %s\n", t.Until.Format(time.RFC3339), t.Then)
	default:
		fmt.Fprintln(w)
	}
	display.Printf(w, "%s, %d left out\n", printable.Count(t.Requests, "request"), t.Dropped)
	display.Printf(w, "refused: %d in force, %d on trial\n", t.RefusedInForce, t.RefusedOnTrial)
	display.Printf(w, "newly refused: %d (%s), newly allowed: %d (%s)\n",
		t.NewlyRefused, share(t.NewlyRefused, t.Requests), t.NewlyAllowed, share(t.NewlyAllowed, t.Requests))
	if len(t.Rules) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "\nrule\tnewly refused\tnewly allowed\tidentity")
	for _, r := range t.Rules {
		label := "none"
		switch {
		case r.Rule > 0:
			label = fmt.Sprintf("%d %s", r.Rule, r.Name)
		case r.Name != "": // an imported limit, whose name is its path
			label = "limit " + r.Name
		}
		display.Printf(table, "%s\t%d\t%d\t\n", label, r.NewlyRefused, r.NewlyAllowed)
		for _, one := range r.Identities {
			display.Printf(table, "\t%d\t%d\t%s\n", one.NewlyRefused, one.NewlyAllowed, one.Identity)
		}
	}
	return table.Flush()
}

// share returns a part of a whole in percent, with two digits and without an exponent.
func share(part, whole int64) string {
	if whole == 0 {
		return "0 %"
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(100*float64(part)/float64(whole), 'g', 2, 64), 64) // it cannot fail
	if rounded == 100 && part < whole {
		return "over 99 %"
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64) + " %"
}
