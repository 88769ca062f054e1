package service

import (
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
	if l == nil || d.Verdict == rules.Allow {
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
