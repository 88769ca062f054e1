package replay

import (
	"context"
	"fmt"
	"strings"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/pace"
	"github.com/koalagate/koalagate/internal/trace"
	"github.com/koalagate/koalagate/rules"
)

// MaskedParam is a parameter whose value the trace masks although a rule
// compares it. The answers are then those to other requests, and nothing else
// would show it.
type MaskedParam struct {
	File string // the trace, if there are several
	Line int    // the first line with a masked value
	Name string // the parameter
	Rule int64  // the number of the first rule that compares it
}

// String returns the problem and its fix in one sentence.
func (m MaskedParam) String() string {
	return fmt.Sprintf("%s: the value of %s is masked, but rule %d compares it; add %s to decision_log_params of the service that writes the log",
		trace.Place{File: m.File, Line: m.Line}, m.Name, m.Rule, m.Name)
}

// maskedParams finds masked parameters.
type maskedParams struct {
	found    func(MaskedParam)
	compared map[string]*rules.Rule // by parameter, the first rule that compares it; without those already found
}

// newMaskedParams looks for the parameters that rules compare, with the pauses of ctx. It ends with
// ctx.
func newMaskedParams(ctx context.Context, set *rules.Set, found func(MaskedParam)) *maskedParams {
	m := &maskedParams{found: found, compared: make(map[string]*rules.Rule)}
	if found == nil {
		return m
	}
	note := func(name string, r *rules.Rule) {
		if _, known := m.compared[name]; !known && name != "" {
			m.compared[name] = r
		}
	}
	for _, r := range set.Rules {
		if pace.Step(ctx) != nil {
			break
		}
		note(r.Cost, r)
		for i := range r.Thresholds {
			note(r.Thresholds[i].Param, r)
		}
		for _, c := range r.Conditions {
			// Conditions for any value also hold for a pseudonym.
			if !strings.HasSuffix(strings.TrimSuffix(c.String(), "{~}"), "=+") {
				note(c.Name, r)
			}
		}
	}
	return m
}

// check reports the parameters that are masked in a call, each once.
func (m *maskedParams) check(place trace.Place, c *engine.Call) {
	for name, rule := range m.compared {
		for i := range c.Inputs {
			if value, _ := c.Inputs[i].Params.Get(name); trace.IsPseudonym(value) {
				m.found(MaskedParam{File: place.File, Line: place.Line, Name: name, Rule: rule.Return})
				delete(m.compared, name)
				break
			}
		}
	}
}
