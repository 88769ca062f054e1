package trace_test

import (
	"strings"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/trace"
	"github.com/koalagate/koalagate/rules"
)

// limits is a source that refuses all inputs, or none.
type limits struct{ refuses bool }

func (l limits) Match(_ int, m *rules.Matches) { m.List = m.List[:0] }

func (l limits) Conclude(d *engine.Decision) {
	if l.refuses {
		d.Verdict, d.Refuser = rules.Deny, 0
		d.Answers[0].Verdict, d.Answers[0].Decider = rules.Deny, &rules.Rule{Name: "d.ten"}
	}
}

// A line about a request that met limits and rules has it once: with its rules, or with the
// limit that refused it.
func TestLineHasEachRequestOnce(t *testing.T) {
	for refuses, want := range map[bool]string{
		true:  `"params":{"ten":"x"},"hits":1,"answer":{"verdict":"deny","return":0,"name":"d.ten"`,
		false: `"params":{"uid":"7"},"hits":1,"answer":{"verdict":"allow"`,
	} {
		f := new(file)
		e, l := logging(t, trace.LogOptions{}, f)
		_, err := e.Decide(t.Context(), &engine.Call{
			Op: engine.Take, Source: limits{refuses},
			Inputs: []engine.Input{{Sourced: true, Params: params("ten", "x")}, {Params: params("uid", "7")}},
		})
		if err != nil {
			t.Fatal(err)
		}
		closeLog(t, l)
		if got := f.String(); !strings.Contains(got, want) || strings.Contains(got, `"sets"`) {
			t.Errorf("refused: %v: %s; want %s", refuses, got, want)
		}
	}
}
