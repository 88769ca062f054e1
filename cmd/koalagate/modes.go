package main

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/metrics"
	"github.com/koalagate/koalagate/internal/ration"
)

// startModes are the modes of the doors as configured; metrics and log follow
// their changes.
func startModes(c *config.Config, m *metrics.Metrics, logger *slog.Logger) *engine.Modes {
	modes := &engine.Modes{Changed: func(door string, from, to engine.Mode) {
		m.DoorMode(door, string(to))
		logger.Warn("a door is in another mode", "door", door, "from", string(from), "to", string(to))
	}}
	for _, door := range doorname.Served() {
		m.DoorMode(door, string(modes.Of(door)))
	}
	set := make(map[string]engine.Mode, len(c.Modes))
	for _, text := range c.Modes {
		door, mode, _ := strings.Cut(text, "=") // the configuration has checked both
		set[door] = engine.Mode(mode)
	}
	modes.Set(set)
	return modes
}

// maxObserved bounds the kinds of refusals that are told apart.
const maxObserved = 1000

// observedLog tells of refusals that doors in observe mode did not carry out:
// of each kind one line every so often.
type observedLog struct {
	logger *slog.Logger
	kinds  ration.Lines[observedKind]
}

// observedKind is what one line stands for: a door, and the rule that would
// have refused, or the fault of a request that could not be decided.
type observedKind struct {
	door, decision string
	rule           int64 // 0 without one
}

func newObservedLog(logger *slog.Logger) *observedLog {
	return &observedLog{logger: logger, kinds: ration.Lines[observedKind]{Most: maxObserved}}
}

// tell logs what of a decision was overruled.
func (l *observedLog) tell(c *engine.Call, d *engine.Decision) {
	for i := range d.Answers {
		a := &d.Answers[i]
		if !a.Overruled() {
			continue
		}
		kind := observedKind{door: c.Door, decision: a.DecisionWord()}
		if a.Decider != nil {
			kind.rule = a.Decider.Return
		}
		if unsaid, due := l.kinds.Due(kind); due {
			l.logger.Info("a refusal is observed, not carried out", l.words(kind, c, unsaid)...)
		}
	}
}

func (l *observedLog) words(kind observedKind, c *engine.Call, unsaid int64) []any {
	words := []any{"door", kind.door, "decision", kind.decision}
	if kind.rule != 0 {
		words = append(words, "rule", kind.rule)
	}
	if c.Fault != nil {
		words = append(words, "fault", fmt.Sprint(c.Fault))
	}
	return append(words, "unsaid", unsaid)
}
