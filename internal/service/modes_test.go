package service

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/loglimit"
	"github.com/koalagate/koalagate/rules"
)

// Each kind of observed refusal is logged once per interval; the next line has the
// number of refusals that were not logged.
func TestObservedRefusalsAreLoggedOncePerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		l := newObservedLog(slog.New(slog.NewTextHandler(&text, nil)))
		refusal := func(rule int64) *engine.Decision {
			return &engine.Decision{Answers: []engine.Answer{
				{Mode: engine.ModeObserve}, // allowed: not logged
				{Mode: engine.ModeObserve, Observed: rules.Deny, Decider: &rules.Rule{Return: rule}},
			}}
		}
		call := &engine.Call{Door: "koala"}
		for range 5 {
			l.log(call, refusal(201))
			l.log(call, refusal(202))
		}
		l.log(&engine.Call{Door: "accel", Fault: errors.New("malformed path")}, &engine.Decision{Answers: []engine.Answer{{Observed: rules.Deny}}})
		time.Sleep(loglimit.Every)
		l.log(call, refusal(201))

		const line = `level=INFO msg="a refusal was observed and not enforced" `
		want := []string{
			line + "door=koala decision=observed-deny rule=201 suppressed=0",
			line + "door=koala decision=observed-deny rule=202 suppressed=0",
			line + `door=accel decision=observed-deny fault="malformed path" suppressed=0`,
			line + "door=koala decision=observed-deny rule=201 suppressed=4",
		}
		got := strings.Split(strings.TrimSpace(text.String()), "\n")
		for i := range got {
			_, got[i], _ = strings.Cut(got[i], " ") // the time
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}
