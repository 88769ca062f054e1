package service

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/trial"
	"github.com/koalagate/koalagate/rules"
)

// The counts of all trials never go back, also while one trial ends and the next begins:
// Prometheus would take the difference for new calls.
func TestCountsOfTrialsNeverGoBack(t *testing.T) {
	onTrial := filepath.Join(t.TempDir(), "trial.conf")
	if err := os.WriteFile(onTrial, []byte(oneRule), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ := open(t, map[string]any{"trial": []string{onTrial}})
	set := s.app.Engine().Rules()
	stop, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for before := int64(0); ; {
			now := s.trials.counts().Requests
			if now < before {
				t.Errorf("%d requests after %d", now, before)
				return
			}
			before = now
			select {
			case <-stop:
				return
			default:
				runtime.Gosched()
			}
		}
	}()
	ann := rules.MakeParams(map[string]string{"uid": "ann"})
	for round := int64(1); round <= 30; round++ {
		if _, err := s.app.Engine().Decide(t.Context(), &engine.Call{Op: engine.Take, Inputs: []engine.Input{{Params: ann}}}); err != nil {
			t.Fatal(err)
		}
		for begin := time.Now(); s.trials.counts().Requests < round; {
			if time.Since(begin) > time.Minute {
				t.Fatalf("round %d: the trial has not decided the call within a minute", round)
			}
			time.Sleep(time.Millisecond)
		}
		if err := s.trials.begin(&trial.Report{Hash: set.Hash}, candidates{rules: set}, "trial:next", time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	<-watched
}
