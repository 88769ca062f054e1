package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/trace"
	"github.com/koalagate/koalagate/rules"
)

// maskedValues tells whoever replays a trace of parameters that were masked when
// it was written though rules compare them: the answers would be those of other
// requests, and nothing else would show it.
type maskedValues struct {
	out      io.Writer
	compared map[string]*rules.Rule // the first rule that needs the value; nothing once that was told
}

func newMaskedValues(set *rules.Set, out io.Writer) *maskedValues {
	m := &maskedValues{out: out, compared: make(map[string]*rules.Rule)}
	note := func(name string, r *rules.Rule) {
		if _, known := m.compared[name]; !known && name != "" {
			m.compared[name] = r
		}
	}
	for _, r := range set.Rules {
		note(r.Cost, r)
		for _, c := range r.Conditions {
			if !strings.HasSuffix(strings.TrimSuffix(c.String(), "{~}"), "=+") {
				note(c.Name, r)
			}
		}
	}
	return m
}

// look looks at a call's parameters, and tells of each once.
func (m *maskedValues) look(line int, c *engine.Call) {
	for name, rule := range m.compared {
		for i := range c.Sets {
			if value, _ := c.Sets[i].Params.Get(name); trace.IsPseudonym(value) {
				fmt.Fprintf(m.out, "koalagate: line %d: the value of %s is masked, and rule %d goes by it; have the service write it down by adding %s to decision_log_params\n", line, name, rule.Return, name)
				delete(m.compared, name)
				break
			}
		}
	}
}
