package traffic

import (
	"math"
	"strings"
)

// Verdicts count decisions by what became of their calls.
type Verdicts struct {
	Allowed     int64 `json:"allowed"`     // also at doors that are off
	Refused     int64 `json:"refused"`     // denied or challenged
	Observed    int64 `json:"observed"`    // would have been refused if the door enforced
	Unavailable int64 `json:"unavailable"` // no store answered
	Invalid     int64 `json:"invalid"`     // the call could not be decided
}

func (v *Verdicts) fields() []*int64 {
	return []*int64{&v.Allowed, &v.Refused, &v.Observed, &v.Unavailable, &v.Invalid}
}

// Counts count what a rule did with the requests that met it.
type Counts struct {
	Admitted int64
	Refused  int64
	Near     int64 // admitted, with more of the limit used than near_limit_ratio
	Shadow   int64 // a rule with shadow=1 would have refused
}

func (c *Counts) fields() []*int64 {
	return []*int64{&c.Admitted, &c.Refused, &c.Near, &c.Shadow}
}

// Rule identifies a rule. Number 0 with a name is an imported limit, whose path is the
// name; without a name it stands for all rules after the first thousand.
type Rule struct {
	Number int64
	Name   string // "" for a rule without a name
}

// Totals are counts since the process started. A rule that left the rules and returned
// may begin again at 0.
type Totals struct {
	Verdicts Verdicts
	Rules    map[Rule]Counts
}

// Add adds the counts of a rule. The end of a name that is too long for the other instances
// is cut off.
func (t *Totals) Add(r Rule, c Counts) {
	if len(r.Name) > maxName {
		r.Name = strings.ToValidUTF8(r.Name[:maxName], "")
	}
	known := t.Rules[r]
	sum(known.fields(), c.fields())
	t.Rules[r] = known
}

// since returns what was counted after before.
func (t *Totals) since(before *Totals) Totals {
	difference := Totals{Rules: make(map[Rule]Counts)}
	subtract(difference.Verdicts.fields(), t.Verdicts.fields(), before.Verdicts.fields())
	for rule, now := range t.Rules {
		then := before.Rules[rule]
		var d Counts
		subtract(d.fields(), now.fields(), then.fields())
		if d != (Counts{}) {
			difference.Rules[rule] = d
		}
	}
	return difference
}

// add adds counts, which may come from another instance.
func (t *Totals) add(other *Totals) {
	sum(t.Verdicts.fields(), other.Verdicts.fields())
	for rule, c := range other.Rules {
		total := t.Rules[rule]
		sum(total.fields(), c.fields())
		t.Rules[rule] = total
	}
}

// subtract sets each result to now less then or, if its count began again, to now.
func subtract(result, now, then []*int64) {
	for i := range result {
		if *result[i] = *now[i]; *now[i] >= *then[i] {
			*result[i] -= *then[i]
		}
	}
}

// sum adds each count to its total. Totals stay at the largest number instead of overflowing.
func sum(totals, counts []*int64) {
	for i := range totals {
		if *totals[i] > math.MaxInt64-*counts[i] {
			*totals[i] = math.MaxInt64
			continue
		}
		*totals[i] += *counts[i]
	}
}
