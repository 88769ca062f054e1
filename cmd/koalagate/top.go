package main

import (
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/display"
	"github.com/koalagate/koalagate/internal/heavy"
	"github.com/koalagate/koalagate/internal/operations"
	"github.com/koalagate/koalagate/internal/printable"
)

// topFlags are the flags of `koalagate top`.
type topFlags struct {
	rule  ruleFlag
	by    choice
	since time.Duration
	most  int
}

func (p *program) topCommand() *cobra.Command {
	o := &topFlags{by: choice{value: "refused", among: []string{"refused", "admitted", "near"}}}
	q := query[[]heavy.Row]{p, "list", func([]string) string { return o.path() }, writeTop}
	c := q.complete(&cobra.Command{
		Use:   "top [--rule RULE] [--by refused|admitted|near] [--since 10m]",
		Short: "List the identities with the most calls, by rule",
		Long: "List the identities with the most calls, by rule: with Redis at all instances, without it at the\n" +
			"instance itself. Values that clients sent are masked, except for the parameters in the\n" +
			"setting decision_log_params.\n\n" +
			"The handle of a row with masked values names its identity for `reset`, `exception add` and\n" +
			"`exception ban` at this instance, for an hour.\n\n" +
			"Each number is a lower bound: the true number of the sorted column may be higher by at most\n" +
			"the number in the column error. Of direct rules, refused calls are listed.",
		Example: "  koalagate top\n" +
			"  koalagate top --rule logins --by admitted --since 1h",
		Args: func(_ *cobra.Command, args []string) error { return o.check(args) },
	})
	f := c.Flags()
	o.rule.add(c, " (default: all rules)")
	f.Var(&o.by, "by", "sort by `KIND` of calls: refused, admitted or near (more of the limit used than near_limit_ratio)")
	f.DurationVar(&o.since, "since", 10*time.Minute, "`DURATION` back from now, 1m to 1h")
	f.IntVar(&o.most, "limit", 10, "maximum `NUMBER` of rows, 1 to 1000")
	return c
}

// check rejects arguments and flags out of range.
func (o *topFlags) check(args []string) error {
	switch {
	case len(args) > 0:
		return fmt.Errorf("unexpected argument %q", args[0])
	case o.since < time.Minute || o.since > time.Hour:
		return fmt.Errorf("--since is %s; want 1m to 1h", o.since)
	case o.most < 1 || o.most > heavy.MaxRows:
		return fmt.Errorf("--limit is %d; want 1 to %d", o.most, heavy.MaxRows)
	}
	return nil
}

// path returns the path of the question.
func (o *topFlags) path() string {
	q := url.Values{"by": {o.by.value}, "since": {o.since.String()}, "limit": {strconv.Itoa(o.most)}}
	if o.rule != "" {
		q.Set("rule", string(o.rule))
	}
	return "top?" + q.Encode()
}

// handleHead returns the title of the column of handles, if there is one.
func handleHead(isThere bool) string {
	if !isThere {
		return ""
	}
	return "\thandle"
}

// handleCell returns the last cell of a row of a table, with its separator; "" without a handle.
func handleCell(handle string) string {
	if handle == "" {
		return ""
	}
	return "\t" + printable.Text(handle)
}

func writeTop(w io.Writer, list *[]heavy.Row) error {
	if len(*list) == 0 {
		fmt.Fprintln(w, "no such calls")
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "rule\tname\trefused\tadmitted\tnear\terror\tidentity"+handleHead(slices.ContainsFunc(*list, func(r heavy.Row) bool { return r.Handle != "" })))
	for i := range *list {
		r := &(*list)[i]
		number := strconv.FormatInt(r.Rule, 10)
		if r.Rule == 0 { // an imported limit, whose name is its path
			number = "limit"
		}
		display.Printf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%s", number, strings.TrimSpace(r.Name), r.Refused, r.Admitted, r.Near, r.Error, operations.Identity(r.Identity))
		fmt.Fprintln(t, handleCell(r.Handle))
	}
	return t.Flush()
}
