package ration_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/koalagate/koalagate/internal/ration"
)

func TestEachKindOfLineIsDueByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := ration.Lines[string]{Most: 2}
		for i, c := range []struct {
			kind   string
			unsaid int64
			due    bool
		}{
			{"a", 0, true},
			{"a", 0, false},
			{"b", 0, true},
			{"c", 0, false}, // one too many
			{"a", 0, false},
		} {
			if unsaid, due := lines.Due(c.kind); unsaid != c.unsaid || due != c.due {
				t.Errorf("line %d, %s: due %v, unsaid %d; want %v, %d", i, c.kind, due, unsaid, c.due, c.unsaid)
			}
		}
		time.Sleep(ration.Every)
		for kind, want := range map[string]struct {
			unsaid int64
			due    bool
		}{"a": {2, true}, "b": {0, true}, "c": {0, false}} {
			if unsaid, due := lines.Due(kind); unsaid != want.unsaid || due != want.due {
				t.Errorf("%s after a while: due %v, unsaid %d; want %v, %d", kind, due, unsaid, want.due, want.unsaid)
			}
		}
	})
}

func TestLinesWithoutABound(t *testing.T) {
	var lines ration.Lines[int]
	for kind := range 1000 {
		if _, due := lines.Due(kind); !due {
			t.Fatalf("kind %d was not due the first time", kind)
		}
	}
}
