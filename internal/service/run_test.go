package service

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/koalagate/koalagate/internal/config"
)

// A signal at the same moment as the first is its echo: timeout(1) signals a process
// and its group. A later one ends the service at once.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	for _, c := range []struct {
		name        string
		at          []time.Duration // when further signals arrive
		endedAfter  time.Duration
		isEndedHard bool
	}{
		{"none", nil, 3 * time.Second, false},
		{"echoes", []time.Duration{0, sameSignal - 1}, 3 * time.Second, false},
		{"a second one", []time.Duration{sameSignal}, sameSignal, true},
		{"an echo and a second one", []time.Duration{0, time.Second}, time.Second, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Service{logger: slog.New(slog.DiscardHandler), config: &config.Config{DrainTimeout: 8 * time.Second}}
				stop, over := make(chan os.Signal, 2), make(chan struct{})
				begin := time.Now()
				for _, at := range c.at {
					time.AfterFunc(at, func() { stop <- syscall.SIGTERM })
				}
				time.AfterFunc(3*time.Second, func() { close(over) })
				err := s.awaitEnd(begin, stop, over)
				if took := time.Since(begin); (err != nil) != c.isEndedHard || took != c.endedAfter {
					t.Errorf("ended after %v, %v; want %v, and an error: %t", took, err, c.endedAfter, c.isEndedHard)
				}
			})
		})
	}
}

// A service whose part ends by itself ends with an error that says so.
func TestServiceEndsWithItsParts(t *testing.T) {
	s, _ := open(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // ends the watch of the rules
	if err := s.Run(ctx, nil, nil); !errors.Is(err, errEnded) {
		t.Errorf("the error is %v; want %v", err, errEnded)
	}
}

// Supervisors kill a process ten seconds after the signal. By default the service has
// ended by then, whatever its callers keep open.
func TestDrainEndsBeforeSupervisorsKill(t *testing.T) {
	if d := config.Default().DrainTimeout + endGrace; d > 9*time.Second {
		t.Errorf("by default the drain may take %v; want 9 s at most", d)
	}
}
