package report

import (
	"fmt"
	"strings"
)

// Goal is a bound that a figure is to keep.
type Goal struct {
	Figure        string // its name
	Must, Stretch float64
	AtMost        bool
	Reason        *Reason // nil if nobody has looked into it
}

// Reason is why goals are missed where they are, as far as it is known.
type Reason struct {
	Holds string // sentences about what the measured time or memory is spent on
	Tried string // sentences about what helped, and what did not; "" for nothing
}

// Because returns the goal with a reason why it may be missed.
func (g Goal) Because(r *Reason) Goal {
	g.Reason = r
	return g
}

// AtLeast returns a goal for a figure that should be large.
func AtLeast(figure string, must, stretch float64) Goal {
	return Goal{Figure: figure, Must: must, Stretch: stretch}
}

// AtMost returns a goal for a figure that should be small.
func AtMost(figure string, must, stretch float64) Goal {
	return Goal{Figure: figure, Must: must, Stretch: stretch, AtMost: true}
}

// Missed is the verdict on a figure beyond its bound.
const Missed = "**missed**"

// notMeasured stands for the value of a figure that a run lacks.
const notMeasured = "not measured"

// verdict judges a figure by the median.
func (g *Goal) verdict(f *Figure) string {
	keeps := func(bound float64) bool {
		if g.AtMost {
			return f.Value.Median <= bound
		}
		return f.Value.Median >= bound
	}
	switch {
	case keeps(g.Must) && keeps(g.Stretch):
		return "met, also stretch"
	case keeps(g.Must):
		return "met"
	}
	return Missed
}

// bound returns a bound as text.
func (g *Goal) bound(n float64, unit string) string {
	if g.AtMost {
		return fmt.Sprintf("≤ %.4g%s", n, unit)
	}
	return fmt.Sprintf("≥ %.4g%s", n, unit)
}

// goalColumns are the columns of the table of goals.
var goalColumns = []string{"", "measured", "must", "stretch", "verdict"}

// goalsAndFigures returns the goals with the figures, then the figures without a goal, and the goals
// that are missed.
func goalsAndFigures(goals []Goal, figures []Figure) (promised, others Table, missed []*Goal) {
	left := make(map[string]*Figure, len(figures))
	for i := range figures {
		left[figures[i].Name] = &figures[i]
	}
	promised.Columns, others.Columns = goalColumns, []string{"", "measured"}
	for i := range goals {
		g := &goals[i]
		f, measured := left[g.Figure]
		if !measured {
			promised.Rows = append(promised.Rows, []string{g.Figure, notMeasured, g.bound(g.Must, ""), g.bound(g.Stretch, ""), ""})
			continue
		}
		delete(left, g.Figure)
		verdict := g.verdict(f)
		if verdict == Missed {
			missed = append(missed, g)
		}
		promised.Rows = append(promised.Rows, []string{g.Figure, f.String(), g.bound(g.Must, f.Unit), g.bound(g.Stretch, f.Unit), verdict})
	}
	for i := range figures {
		if _, unpromised := left[figures[i].Name]; unpromised {
			others.Rows = append(others.Rows, []string{figures[i].Name, figures[i].String()})
		}
	}
	return promised, others, missed
}

// reasons returns a list of why these goals are missed, in their order; goals with one reason share
// a line.
func reasons(missed []*Goal) string {
	var order []*Reason
	names := map[*Reason][]string{}
	for _, g := range missed {
		if names[g.Reason] == nil {
			order = append(order, g.Reason)
		}
		names[g.Reason] = append(names[g.Reason], g.Figure)
	}
	list := make([]string, len(order))
	for i, r := range order {
		list[i] = "* **" + strings.Join(names[r], "; ") + "**: " + r.text()
	}
	return strings.Join(list, "\n")
}

// text returns the reason as it stands in the report.
func (r *Reason) text() string {
	switch {
	case r == nil:
		return "not known."
	case r.Tried == "":
		return r.Holds
	}
	return r.Holds + " Tried: " + r.Tried
}
