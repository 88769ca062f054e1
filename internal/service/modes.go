package service

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/loglimit"
	"github.com/koalagate/koalagate/internal/metrics"
)

// startModes returns the configured modes of the doors. Changes are recorded in
// metrics and logged.
func startModes(c *config.Config, m *metrics.Metrics, logger *slog.Logger) *engine.Modes {
	modes := &engine.Modes{Changed: func(door string, from, to engine.Mode) {
		m.DoorMode(door, string(to))
		logger.Warn("the mode of a door has changed", "door", door, "from", string(from), "to", string(to))
	}}
	for _, door := range doorname.Served() {
		m.DoorMode(door, string(modes.Of(door)))
		m.WatchDoor(door)
	}
	set := make(map[string]engine.Mode, len(c.Modes))
	for _, text := range c.Modes {
		door, mode, _ := strings.Cut(text, "=") // package config has checked both
		set[door] = engine.Mode(mode)
	}
	modes.Set(set)
	return modes
}

// applyModes applies modes that an operator set for all instances. It leaves out what a
// newer program may have set.
func (s *Service) applyModes(set map[string]string) {
	known := make(map[string]engine.Mode, len(set))
	for door, text := range set {
		mode, err := engine.ParseMode(text)
		if err != nil || !doorname.IsServed(door) {
			s.logger.Warn("a mode for all instances is unknown to this one", "door", door, "mode", text)
			continue
		}
		known[door] = mode
	}
	s.modes.Set(known)
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
