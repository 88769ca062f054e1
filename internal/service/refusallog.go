package service

import (
	"fmt"
	"log/slog"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/loglimit"
	"github.com/koalagate/koalagate/internal/trace"
	"github.com/koalagate/koalagate/rules"
)

// refusalLog logs a sample of the refusals that clients received: the first of each rule at
// each door in loglimit.Every, with masked parameters and the number of refusals that were
// not logged. A nil *refusalLog logs nothing.
type refusalLog struct {
	logger *slog.Logger
	mask   *trace.Mask
	kinds  loglimit.Lines[observedKind]
}

func newRefusalLog(logger *slog.Logger, mask *trace.Mask) *refusalLog {
	return &refusalLog{logger: logger, mask: mask, kinds: loglimit.Lines[observedKind]{Most: maxObserved}}
}

// log logs the refused answers of a decision.
func (l *refusalLog) log(c *engine.Call, d *engine.Decision) {
	if l == nil {
		return
	}
	for i := range d.Answers {
		a := &d.Answers[i]
		if a.Verdict != rules.Deny && a.Verdict != rules.Challenge {
			continue
		}
		kind := kindOf(c, a)
		if skipped, due := l.kinds.Due(kind); due {
			l.logger.Info("a request was refused", append(attributes(kind, c, skipped), l.request(c, i)...)...)
		}
	}
}

// request returns the attributes of the request behind an answer.
func (l *refusalLog) request(c *engine.Call, i int) (list []any) {
	if c.Origin != nil && c.Origin.RequestID() != "" {
		list = append(list, "request_id", c.Origin.RequestID())
	}
	if i < len(c.Inputs) && c.Inputs[i].Params != nil {
		var params []any
		for _, p := range c.Inputs[i].Params.List() {
			params = append(params, slog.String(c.Inputs[i].Params.FullName(p.Name), l.mask.Value(c.Door, p.Name, p.Value)))
		}
		list = append(list, slog.Group("params", params...))
	}
	return list
}

// maxObserved bounds the kinds of refusals that are logged.
const maxObserved = 1000

// observedLog logs refusals that doors in observe mode did not enforce, each kind at
// most once per loglimit.Every.
type observedLog struct {
	logger *slog.Logger
	kinds  loglimit.Lines[observedKind]
}

// observedKind is the kind of a line: a door and the rule that would have refused, if
// any, or a request that could not be decided.
type observedKind struct {
	door, decision string
	rule           int64  // 0 without one
	name           string // of the rule; "" without one
}

func newObservedLog(logger *slog.Logger) *observedLog {
	return &observedLog{logger: logger, kinds: loglimit.Lines[observedKind]{Most: maxObserved}}
}

// log logs the overruled answers of a decision.
func (l *observedLog) log(c *engine.Call, d *engine.Decision) {
	for i := range d.Answers {
		a := &d.Answers[i]
		if !a.Overruled() {
			continue
		}
		kind := kindOf(c, a)
		if skipped, due := l.kinds.Due(kind); due {
			l.logger.Info("a refusal was observed and not enforced", attributes(kind, c, skipped)...)
		}
	}
}

// kindOf returns the kind of the line about an answer.
func kindOf(c *engine.Call, a *engine.Answer) observedKind {
	kind := observedKind{door: c.Door, decision: a.DecisionWord()}
	if a.Decider != nil {
		kind.rule, kind.name = a.Decider.Return, a.Decider.Name
	}
	return kind
}

func attributes(kind observedKind, c *engine.Call, skipped int64) []any {
	list := []any{"door", kind.door, "decision", kind.decision}
	if kind.rule != 0 {
		list = append(list, "rule", kind.rule)
	}
	if kind.name != "" {
		list = append(list, "name", kind.name)
	}
	if c.Fault != nil {
		list = append(list, "fault", fmt.Sprint(c.Fault))
	}
	return append(list, "suppressed", skipped)
}
