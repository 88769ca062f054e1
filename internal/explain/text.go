package explain

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/koalagate/koalagate/internal/display"
	"github.com/koalagate/koalagate/internal/printable"
	"github.com/koalagate/koalagate/rules"
)

const (
	// MaxNotMet is the number of rules that are not met up to which text shows
	// all rules. If more are not met, it shows the nearest of them only.
	MaxNotMet = 20
	// maxNearest is the number of rules that it shows then.
	maxNearest = 10
)

// TextOptions configures WriteText.
type TextOptions struct {
	// All shows every rule. Without it, the report omits most rules that are not
	// met if there are more than MaxNotMet.
	All bool
	// Color adds escape sequences of terminals.
	Color bool
}

// WriteText writes the report for people. Errors of w are not reported.
func (r *Report) WriteText(w io.Writer, o TextOptions) {
	paint := display.Painter(o.Color)
	if r.Request != nil {
		fmt.Fprintln(w, strings.TrimSpace(printable.Text(r.Request.Method+" "+r.Request.Target)+" at "+r.Request.Door))
		writeParams(w, r.Params, r.Absent)
		for i := range r.Tokens {
			fmt.Fprintln(w, r.Tokens[i].String())
		}
	}
	if r.Refused != nil {
		fmt.Fprintf(w, "verdict: %s before any rule, HTTP status %d: %s\n", paintVerdict(paint, "deny"), r.Refused.Status, r.Refused.Reason)
		return
	}
	if x := r.Imported; x != nil {
		fmt.Fprintln(w, paintOutcome(paint, x.Outcome, x.text()))
	}
	shown, omitted := r.Rules, 0
	if !o.All {
		shown, omitted = selectRules(r.Rules)
	}
	for i := range shown {
		x := &shown[i]
		line := fmt.Sprintf("rule %s (%s:%d): %s", rules.Label(x.Return, x.Name), printable.Text(x.File), x.Line, ruleText(x))
		fmt.Fprintln(w, paintOutcome(paint, x.Outcome, line))
	}
	if omitted > 0 {
		fmt.Fprintln(w, paint.Paint(display.Faint, fmt.Sprintf("%d more rules are not met; --all explains each", omitted)))
	}
	if r.Decision != nil {
		r.writeDecision(w, paint)
	}
}

// selectRules returns the rules that text shows, in their order, and the number
// of omitted rules. It omits rules that are not met, except the nearest ones.
func selectRules(all []Rule) (shown []Rule, omitted int) {
	met, near := 0, []int{}
	for i := range all {
		if all[i].Outcome != NotMet {
			met++
		} else if all[i].isNear() {
			near = append(near, i)
		}
	}
	if len(all)-met <= MaxNotMet {
		return all, 0
	}
	// Conditions that hold for few requests say more than those such as uid=+,
	// which hold for most.
	slices.SortStableFunc(near, func(a, b int) int { return cmp.Compare(all[b].selecting, all[a].selecting) })
	near = near[:min(len(near), maxNearest)]
	slices.Sort(near)
	for i := range all {
		if len(near) > 0 && near[0] == i {
			near = near[1:]
		} else if all[i].Outcome == NotMet {
			omitted++
			continue
		}
		shown = append(shown, all[i])
	}
	return shown, omitted
}

// isNear reports whether exactly one condition fails and another one holds, or all hold
// and the rule is not active.
func (r *Rule) isNear() bool {
	return len(r.Failed) == 1 && r.holding > 0 || len(r.Failed) == 0 && r.Inactive != ""
}

func paintOutcome(paint display.Painter, outcome, text string) string {
	switch outcome {
	case NotMet, NotReached:
		return paint.Paint(display.Faint, text)
	case Decides:
		return paint.Paint(display.Yellow, text)
	}
	return text
}

func paintVerdict(paint display.Painter, verdict string) string {
	if verdict == "deny" || verdict == "challenge" {
		return paint.Paint(display.Red, verdict)
	}
	return paint.Paint(display.Green, verdict)
}

// writeParams writes a table of the present and the absent parameters.
func writeParams(w io.Writer, params, absent []Param) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, p := range params {
		fmt.Fprintf(table, "  %s\t%s\t%s\n", display.Value(p.Name), display.Value(p.Value), printable.Text(p.From))
	}
	for _, p := range absent {
		fmt.Fprintf(table, "  %s\t(absent)\t%s\n", display.Value(p.Name), printable.Text(p.From))
	}
	_ = table.Flush() // as documented, errors of w are not reported
}

// ruleText explains a rule in one line.
func ruleText(r *Rule) string {
	if r.Outcome == NotMet {
		return "not met: " + unmetText(r)
	}
	text := "met, " + r.Limit + thresholdsText(r.Thresholds)
	if r.Method != rules.Direct.String() {
		text += ", counted for " + identityText(r.CountedFor)
	}
	if r.Cost != 1 {
		text += fmt.Sprintf(", cost %d per hit", r.Cost)
	}
	switch r.Outcome {
	case Decides:
		return text + fmt.Sprintf(": decides, result %d", r.Result)
	case Shadow:
		text += ": shadow rule, never decides"
		if r.Would != "" {
			text += " (would " + r.Would + ")"
		}
		return text
	case Marks:
		return text + ": beyond its limit, passes with the mark " + r.Mark
	}
	if r.Unshared != "" {
		return text + ": no share can be assigned because of " + r.Unshared + "; no_assignment_behavior of Envoy's filter decides"
	}
	return text + ": " + r.Outcome
}

// String explains the verification in one line.
func (t *Token) String() string {
	text := "token " + t.Name + ": " + t.Outcome
	if t.Outcome == rules.JWTAbsent.String() {
		return text + ", not in " + printable.Text(t.From)
	}
	text += ", from " + printable.Text(t.From)
	if t.Reason != "" {
		text += ": " + printable.Text(t.Reason)
	}
	return text
}

// text explains the header in one line.
func (f *Forward) text() string {
	switch {
	case f.Unsent != "":
		return fmt.Sprintf("forwards no %s, because of %s: %s", f.Header, f.Param, f.Unsent)
	case f.Value == "":
		return fmt.Sprintf("forwards no %s: %s is absent", f.Header, f.Param)
	}
	return fmt.Sprintf("forwards %s: %s (%s)", f.Header, display.Value(f.Value), f.Param)
}

// text explains the limit in one line.
func (x *Imported) text() string {
	if x.Outcome == NotMet {
		return "no limit applies: " + x.Reason
	}
	text := "limit " + printable.Text(x.Path)
	if x.Name != "" {
		text += " (" + printable.Text(x.Name) + ")"
	}
	text += ": " + printable.Text(x.Limit) + ": "
	if x.Outcome == Shadow {
		return text + "never decides"
	}
	return text + x.Outcome
}

// thresholdsText returns the origins of thresholds in parentheses, "" for none.
func thresholdsText(list []Threshold) string {
	if len(list) == 0 {
		return ""
	}
	texts := make([]string, len(list))
	for i, t := range list {
		value := strconv.FormatInt(t.Value, 10)
		if t.Unlimited {
			value = "unlimited"
		}
		texts[i] = t.Word + " " + value + " " + t.origin()
	}
	return " (" + strings.Join(texts, "; ") + ")"
}

// origin returns where the value comes from.
func (t *Threshold) origin() string {
	switch {
	case t.Table == "" && t.Given:
		return "from the parameter " + t.Param
	case t.Key == "":
		return "after else: " + t.Param + " is absent"
	case t.Table == "":
		return "after else: " + t.Param + " is " + display.Value(t.Key)
	case t.Line == 0:
		return "after else: " + t.Table + " has no row " + display.Value(t.Key)
	case !t.Given:
		return fmt.Sprintf("after else: the cell %s.%s of row %s, line %d, is empty", t.Table, t.Column, display.Value(t.Key), t.Line)
	}
	return fmt.Sprintf("from %s.%s of row %s, line %d", t.Table, t.Column, display.Value(t.Key), t.Line)
}

// unmetText returns why a rule is not met.
func unmetText(r *Rule) string {
	switch {
	case r.Inactive == "" && len(r.Failed) == 0: // its conditions hold
		return "unlimited" + thresholdsText(r.Thresholds)
	case r.Inactive == "":
		return failedText(r.Failed)
	case len(r.Failed) == 0:
		return r.Inactive
	}
	return r.Inactive + "; " + failedText(r.Failed)
}

// failedText lists conditions that fail.
func failedText(failed []Condition) string {
	texts := make([]string, len(failed))
	for i, f := range failed {
		value := "absent"
		if f.Value != "" {
			value = display.Value(f.Value)
		}
		texts[i] = fmt.Sprintf("%s is %s, want %s", f.Name, value, printable.Text(f.Condition))
	}
	return strings.Join(texts, "; ")
}

func identityText(identity []Param) string {
	values := make([]rules.Param, len(identity))
	for i, p := range identity {
		values[i] = rules.Param{Name: p.Name, Value: p.Value}
	}
	return display.Identity(values)
}

func (r *Report) writeDecision(w io.Writer, paint display.Painter) {
	d := r.Decision
	if d.Imported != "" {
		fmt.Fprintf(w, "verdict: %s, by limit %s, HTTP status %d\n", paintVerdict(paint, d.Verdict), printable.Text(d.Imported), d.Status)
		return
	}
	verdict := d.Verdict
	if verdict == "none" { // no rule is met, and entry 0 allows
		verdict = rules.Allow.String()
	}
	fmt.Fprintf(w, "verdict: %s, result %d", paintVerdict(paint, verdict), d.Result)
	if d.Reason != "" {
		fmt.Fprintf(w, " %q", d.Reason)
	}
	switch {
	case d.Decider != 0:
		fmt.Fprintf(w, ", by rule %s", rules.Label(d.Decider, d.Name))
	case d.Matched:
		fmt.Fprint(w, ", no rule decides")
	default:
		fmt.Fprint(w, ", no rule is met")
	}
	if d.Status != 0 {
		fmt.Fprintf(w, ", HTTP status %d", d.Status)
	}
	if len(d.Marks) > 0 {
		fmt.Fprint(w, ", marked ", strings.Join(d.Marks, ", "))
	}
	fmt.Fprintln(w)
	for _, f := range r.Forward {
		fmt.Fprintln(w, f.text())
	}
	if n := d.Nearest; n != nil {
		when := "before"
		if r.Counted {
			when = "after"
		}
		fmt.Fprintf(w, "nearest to its limit: rule %s, with %d of %d left %s this request\n", rules.Label(n.Return, n.Name), n.Remaining, n.Limit, when)
	}
}
