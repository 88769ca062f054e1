package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/trace"
	"github.com/koalagate/koalagate/rules"
)

// summary is what a replay has to tell people. It takes as much memory as
// there are rules, however long the trace is.
type summary struct {
	set      *rules.Set
	matches  rules.Matches
	calls    int
	from, to int64 // ms since the epoch
	verdicts [3]int
	rules    map[*rules.Rule]*ruleTally
	heaviest *heaviest

	recorded, otherwise int // calls whose recorded answer is known, and is another
	firstOtherwise      int // the line of the first one
	answer              []byte
}

// ruleTally is what a rule has done.
type ruleTally struct{ matched, refused, wouldRefuse int }

// heaviestKept is among how many identities the heaviest are looked for, and
// heaviestShown how many of them are told of.
const (
	heaviestKept  = 10_000
	heaviestShown = 10
)

func newSummary(set *rules.Set) *summary {
	s := &summary{set: set, rules: make(map[*rules.Rule]*ruleTally, len(set.Rules)), heaviest: newHeaviest(heaviestKept)}
	for _, r := range set.Rules {
		s.rules[r] = new(ruleTally)
	}
	return s
}

// add notes a call and its answer.
func (s *summary) add(q lineRead, c *engine.Call, d *engine.Decision) {
	if s.calls == 0 || c.Now < s.from {
		s.from = c.Now
	}
	s.to = max(s.to, c.Now)
	s.calls++
	switch c.Op {
	case engine.Take, engine.Browse, engine.Complete, engine.CompleteTake:
		s.verdicts[d.Verdict]++
	default: // the others have none
	}
	for i := range d.Sets {
		s.addSet(c.Op, &c.Sets[i], &d.Sets[i])
	}
	s.compare(q, c, d)
}

func (s *summary) addSet(op engine.Op, in *engine.Input, a *engine.Answer) {
	s.set.Match(in.Params, &s.matches)
	for i := range s.matches.List {
		m := &s.matches.List[i]
		s.rules[m.Rule].matched++
		asks := op == engine.Take || op == engine.Update || op == engine.CompleteTake
		if m.Rule.Counts() && asks && !in.Refund {
			refused := m.Rule == a.Decider && a.Verdict != rules.Allow
			s.heaviest.add(m, int64(in.Hits)*m.Cost, refused)
		}
	}
	if a.Decider != nil && a.Verdict != rules.Allow {
		s.rules[a.Decider].refused++
	}
	for _, r := range a.Refusing {
		s.rules[r].refused++
	}
	for i := range a.Shadow {
		if a.Shadow[i].Verdict != rules.Allow {
			s.rules[a.Shadow[i].Rule].wouldRefuse++
		}
	}
}

// verdict is what is compared of an answer. What remains of a limit may differ:
// a log need not begin with the counters.
type verdict struct {
	Verdict  string    `json:"verdict"`
	Observed string    `json:"observed"` // what a door on trial decided, and did not carry out
	Return   int64     `json:"return"`
	Sets     []verdict `json:"sets"`

	Unavailable bool `json:"unavailable"` // no store answered: rules have not decided it
}

// settle puts what was decided in the place of what a door on trial made of it.
func (v *verdict) settle() {
	for i := range v.Sets {
		v.Sets[i].settle()
		if v.Sets[i].Verdict != "allow" && v.Verdict == "allow" {
			v.Verdict = v.Sets[i].Verdict
		}
	}
	if v.Observed != "" {
		v.Verdict, v.Observed = v.Observed, ""
	}
}

// compare holds the answer against the one that the line tells of.
func (s *summary) compare(q lineRead, c *engine.Call, d *engine.Decision) {
	var before, now verdict
	recorded := q.line.Recorded()
	if len(recorded) == 0 {
		return
	}
	s.answer = trace.AppendAnswer(s.answer[:0], c.Op, d, q.line.Several())
	if !q.line.Several() && bytes.Equal(beforeNumbers(recorded), beforeNumbers(s.answer)) {
		s.recorded++ // word for word, as most are
		return
	}
	if json.Unmarshal(recorded, &before) != nil || before.Unavailable {
		return
	}
	if json.Unmarshal(s.answer, &now) != nil {
		return
	}
	before.settle()
	s.recorded++
	if !reflect.DeepEqual(before, now) {
		if s.otherwise == 0 {
			s.firstOtherwise = q.number
		}
		s.otherwise++
	}
}

// beforeNumbers is the begin of an answer to one parameter set, which tells all
// that is compared: what remains of a limit stands behind it, and JSON that was
// read once more would take most of the time of a summary.
func beforeNumbers(answer []byte) []byte {
	if at := bytes.Index(answer, []byte(`,"limit":`)); at >= 0 {
		return answer[:at]
	}
	return answer
}

// write writes the summary.
func (s *summary) write(w io.Writer) {
	if s.calls == 0 {
		fmt.Fprintln(w, "there is no call in the trace")
		return
	}
	fmt.Fprintf(w, "%d calls from %s to %s: %d allowed, %d denied, %d challenged, %d without a verdict\n", s.calls, s.clock(s.from), s.clock(s.to),
		s.verdicts[rules.Allow], s.verdicts[rules.Deny], s.verdicts[rules.Challenge],
		s.calls-s.verdicts[rules.Allow]-s.verdicts[rules.Deny]-s.verdicts[rules.Challenge])
	if s.recorded > 0 {
		fmt.Fprintf(w, "%d of %d recorded answers had another verdict or another rule", s.otherwise, s.recorded)
		if s.otherwise > 0 {
			fmt.Fprintf(w, ", first in line %d", s.firstOtherwise)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "rule\tmatched\trefused\twould refuse\t")
	for _, r := range s.set.Rules {
		n := s.rules[r]
		would := "-"
		if r.Shadow {
			would = strconv.Itoa(n.wouldRefuse)
		}
		fmt.Fprintf(t, "%d\t%d\t%d\t%s\t\n", r.Return, n.matched, n.refused, would)
	}
	t.Flush()
	s.heaviest.write(w)
}

// clock is an instant in the zone of the rules' days.
func (s *summary) clock(ms int64) string {
	return time.UnixMilli(ms).In(s.set.Zone).Format("2006-01-02 15:04:05 MST")
}
