package replay

import (
	"bytes"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/rules"
)

// Comparison counts calls whose outcome differs between two rule sets, or
// between a recorded answer and a new one.
type Comparison struct {
	// Compared is the number of calls with two outcomes.
	Compared int
	// Different is the number of these whose outcomes differ.
	Different int
	// FirstDifferent is the number of the first such call, as passed to Add; 0
	// if there is none.
	FirstDifferent int
	// FirstFile is the trace of that call, if there are several.
	FirstFile string
}

// Add counts a call; number identifies it, such as the line of a trace.
func (c *Comparison) Add(number int, before, after Outcome) {
	c.Compared++
	if before.Equal(after) {
		return
	}
	if c.Different == 0 {
		c.FirstDifferent = number
	}
	c.Different++
}

// Summary adds calls and their decisions up. Its memory depends on the number
// of rules and not on the number of calls. It is not safe for concurrent use.
type Summary struct {
	set        *rules.Set
	matches    rules.Matches
	report     Report
	byRule     map[*rules.Rule]*RuleTotals
	identities *topIdentities
}

// NewSummary returns an empty summary of decisions by set.
func NewSummary(set *rules.Set) *Summary {
	s := &Summary{set: set, byRule: make(map[*rules.Rule]*RuleTotals, len(set.Rules)), identities: newTopIdentities(trackedIdentities)}
	s.report.Zone = set.Zone
	s.report.Rules = make([]RuleTotals, len(set.Rules))
	for i, r := range set.Rules {
		s.report.Rules[i] = RuleTotals{Rule: r.Return, Name: r.Name, Passes: !r.Enforced()}
		s.byRule[r] = &s.report.Rules[i]
	}
	return s
}

// Add counts a call and its decision.
func (s *Summary) Add(c *engine.Call, d *engine.Decision) {
	r := &s.report
	r.addTime(c.Now)
	if c.Op.Decides() {
		r.count(d.Verdict)
	} else {
		r.Undecided++
	}
	s.matches.Now = c.Now
	for i := range d.Answers {
		s.addSet(c.Op, &c.Inputs[i], &d.Answers[i])
	}
}

func (s *Summary) addSet(op engine.Op, in *engine.Input, a *engine.Answer) {
	counting := op == engine.Take || op == engine.Update || op == engine.CompleteTake
	s.set.Match(in.Params, &s.matches)
	for i := range s.matches.List {
		m := &s.matches.List[i]
		s.byRule[m.Rule].Matched++
		if m.Rule.Counts() && counting && !in.Refund {
			refused := m.Rule == a.Decider && a.Verdict != rules.Allow
			s.identities.add(m, weight(in.EffectiveHits(), m.Cost), refused)
		}
	}
	if a.Decider != nil && a.Verdict != rules.Allow {
		s.byRule[a.Decider].Refused++
	}
	for _, r := range a.Refusing {
		s.byRule[r].Refused++
	}
	for _, r := range a.Marked {
		s.byRule[r].WouldRefuse++
	}
	for i := range a.Shadow {
		if a.Shadow[i].Verdict != rules.Allow {
			s.byRule[a.Shadow[i].Rule].WouldRefuse++
		}
	}
}

// weight returns the product of hits and cost, at most engine.MaxHits, above which nothing
// is counted.
func weight(hits uint64, cost int64) int64 {
	if cost > 0 && hits > uint64(engine.MaxHits/cost) {
		return engine.MaxHits
	}
	return int64(hits) * max(cost, 0)
}

// addRecorded counts a call by its recorded answer.
func (s *Summary) addRecorded(l parsedLine, c *engine.Call) {
	r := &s.report
	r.Recorded = true
	r.addTime(c.Now)
	o, ok := ParseOutcome(l.line.Recorded())
	if !ok {
		r.Undecided++
		return
	}
	r.count(verdictOf(o.Verdict))
	for _, set := range append(o.Sets, o) {
		rule := s.byRule[s.set.Rule(set.Rule)]
		if rule == nil {
			continue
		}
		rule.Matched++
		if verdictOf(set.Verdict) != rules.Allow {
			rule.Refused++
		}
	}
}

// addEnd counts a line about a receipt, at its time.
func (s *Summary) addEnd(at int64) {
	s.report.addTime(at)
	s.report.Undecided++
}

// verdictOf returns the verdict with this name in a trace.
func verdictOf(name string) rules.Verdict {
	for _, v := range []rules.Verdict{rules.Allow, rules.Deny, rules.Challenge} {
		if v.String() == name {
			return v
		}
	}
	return rules.VerdictUnset
}

// Compare counts whether a call has another outcome than before; number
// identifies the call.
func (s *Summary) Compare(number int, before, after Outcome) {
	s.report.Comparison.Add(number, before, after)
}

// compareRecorded compares a decision with the answer that its line records.
// Answer is the decision as trace.AppendAnswer writes it.
func (s *Summary) compareRecorded(l parsedLine, op engine.Op, d *engine.Decision, answer []byte) {
	recorded := l.line.Recorded()
	if len(recorded) == 0 {
		return
	}
	if !l.line.Several() && bytes.Equal(withoutQuota(recorded), withoutQuota(answer)) {
		s.report.Comparison.Compared++ // identical text, as most answers are
		return
	}
	before, ok := ParseOutcome(recorded)
	if !ok {
		return
	}
	if after, ok := OutcomeOf(op, d, l.line.Several()); ok {
		if c := &s.report.Comparison; c.Different == 0 && !before.Equal(after) {
			c.FirstFile = l.place.File
		}
		s.Compare(l.place.Line, before, after)
	}
}

// withoutQuota returns the start of an answer to one parameter set, up to what
// is left of its limit. All that Outcome compares is in this part, and comparing
// it as text avoids parsing JSON, which would take most of the time of a summary.
func withoutQuota(answer []byte) []byte {
	if at := bytes.Index(answer, []byte(`,"limit":`)); at >= 0 {
		return answer[:at]
	}
	return answer
}

// Report returns the totals so far. They do not change with later calls of Add.
func (s *Summary) Report() *Report {
	r := s.report
	r.Rules = append([]RuleTotals(nil), s.report.Rules...)
	r.Identities = s.identities.top(reportedIdentities)
	return &r
}
