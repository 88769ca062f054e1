package replay

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/koalagate/koalagate/internal/display"
	"github.com/koalagate/koalagate/internal/printable"
	"github.com/koalagate/koalagate/internal/trace"
	"github.com/koalagate/koalagate/rules"
)

// Report is the result of a replay.
type Report struct {
	// Calls is the number of calls.
	Calls int
	// Recorded reports that the totals count the recorded answers. Matched then
	// counts the answers that a rule decided.
	Recorded bool
	// From and To are the earliest and the latest time of a call in ms since the
	// epoch.
	From, To int64
	// Zone is the time zone of the rule set, in which text shows times; nil means
	// UTC.
	Zone *time.Location
	// Allowed, Denied, Challenged and Undecided add up to Calls. Undecided calls
	// are operations that have no verdict, such as refunds.
	Allowed, Denied, Challenged, Undecided int
	// Comparison compares the recorded answers with the new ones.
	Comparison Comparison
	// Rules has an entry for each rule, in the order in which rules are tried.
	Rules []RuleTotals
	// Identities lists up to 10 identities with the most hits, most hits first.
	Identities []IdentityTotals
}

// RuleTotals counts parameter sets for one rule.
type RuleTotals struct {
	Rule        int64  // its number
	Name        string // "" for a rule without one
	Passes      bool   // whether it never decides: a shadow rule, or one that marks
	Matched     int
	Refused     int
	WouldRefuse int // that a shadow rule would have refused, or that the rule marked
}

// IdentityTotals counts the hits of one identity of a rule.
type IdentityTotals struct {
	Rule     int64
	Name     string // of the rule
	Identity []rules.Param
	// Hits is the number of hits; Excess of these may belong to other identities,
	// since only the 10000 heaviest are tracked. Excess is 0 where fewer occur.
	Hits, Excess int64
	// Refused is the number of calls that the rule refused to the identity.
	Refused int
}

// addTime counts a call at a time.
func (r *Report) addTime(now int64) {
	if r.Calls == 0 || now < r.From {
		r.From = now
	}
	r.To = max(r.To, now)
	r.Calls++
}

func (r *Report) count(v rules.Verdict) {
	switch v {
	case rules.Allow:
		r.Allowed++
	case rules.Deny:
		r.Denied++
	case rules.Challenge:
		r.Challenged++
	default:
		r.Undecided++
	}
}

// WriteText writes the report for people. Errors of w are not reported.
func (r *Report) WriteText(w io.Writer) {
	if r.Calls == 0 {
		fmt.Fprintln(w, "the trace has no calls")
		return
	}
	fmt.Fprintf(w, "%s from %s to %s: %d allowed, %d denied, %d challenged, %d without a verdict\n",
		printable.Count(r.Calls, "call"), r.clock(r.From), r.clock(r.To), r.Allowed, r.Denied, r.Challenged, r.Undecided)
	if c := r.Comparison; c.Compared > 0 {
		fmt.Fprintf(w, "%d of %d recorded answers had another verdict or another rule", c.Different, c.Compared)
		if c.Different > 0 {
			fmt.Fprintf(w, ", first in %s", trace.Place{File: c.FirstFile, Line: c.FirstDifferent})
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
	r.writeRules(w)
	r.writeIdentities(w)
}

func (r *Report) writeRules(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	defer t.Flush()
	if r.Recorded {
		fmt.Fprintln(t, "rule\tdecided\trefused\t")
		for _, n := range r.Rules {
			fmt.Fprintf(t, "%d\t%d\t%d\t\n", n.Rule, n.Matched, n.Refused)
		}
		return
	}
	fmt.Fprintln(t, "rule\tmatched\trefused\twould refuse\t")
	for _, n := range r.Rules {
		would := "-"
		if n.Passes {
			would = strconv.Itoa(n.WouldRefuse)
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t\n", rules.Label(n.Rule, n.Name), n.Matched, n.Refused, would)
	}
}

func (r *Report) writeIdentities(w io.Writer) {
	if len(r.Identities) == 0 {
		return
	}
	fmt.Fprintln(w, "\nidentities with the most hits")
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	defer t.Flush()
	fmt.Fprintln(t, "rule\thits\trefused calls\tidentity")
	for _, x := range r.Identities {
		hits := strconv.FormatInt(x.Hits, 10)
		if x.Excess > 0 {
			hits = fmt.Sprintf("%d … %d", x.Hits-x.Excess, x.Hits)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\n", rules.Label(x.Rule, x.Name), hits, x.Refused, display.Identity(x.Identity))
	}
}

// clock returns a time in the zone of the rule set.
func (r *Report) clock(ms int64) string {
	zone := r.Zone
	if zone == nil {
		zone = time.UTC
	}
	return time.UnixMilli(ms).In(zone).Format("2006-01-02 15:04:05 MST")
}
