package loglimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/koalagate/koalagate/internal/loglimit"
)

func TestKindsAreDueIndependently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := loglimit.Lines[string]{Most: 2}
		for i, c := range []struct {
			kind    string
			skipped int64
			due     bool
		}{
			{"a", 0, true},
			{"a", 0, false},
			{"b", 0, true},
			{"c", 0, false}, // one too many
			{"a", 0, false},
		} {
			if skipped, due := lines.Due(c.kind); skipped != c.skipped || due != c.due {
				t.Errorf("line %d, %s: due %v, skipped %d; want %v, %d", i, c.kind, due, skipped, c.due, c.skipped)
			}
		}
		time.Sleep(loglimit.Every)
		for kind, want := range map[string]struct {
			skipped int64
			due     bool
		}{"a": {2, true}, "b": {0, true}, "c": {0, false}} {
			if skipped, due := lines.Due(kind); skipped != want.skipped || due != want.due {
				t.Errorf("%s after a while: due %v, skipped %d; want %v, %d", kind, due, skipped, want.due, want.skipped)
			}
		}
	})
}

func TestLinesWithoutABound(t *testing.T) {
	var lines loglimit.Lines[int]
	for kind := range 1000 {
		if _, due := lines.Due(kind); !due {
			t.Fatalf("kind %d was not due the first time", kind)
		}
	}
}
