package operations

import (
	"errors"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

// One replay runs at a time: two would take processor time from decisions.
func TestOneReplayAtATime(t *testing.T) {
	file := File{Name: "rules.conf", Text: "[rules]\nrule : [direct] [uid=1] [] [result=2; return=1]\n[result]\n0 : {}\n1 : {}\n2 : {}\n"}
	set, findings := rules.Parse([]rules.Source{{Name: file.Name, Text: []byte(file.Text)}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	store := memory.New(memory.Options{})
	defer store.Close()
	d := New(Options{Engine: engine.New(set, wiring.CountIn(store)), Log: DecisionLog{Path: "decisions.jsonl"}})
	replaying.Lock()
	defer replaying.Unlock()
	if _, err := d.Replay(t.Context(), &Replay{Draft: Draft{Files: []File{file}}, SinceMS: 1000}); !errors.Is(err, ErrReplaying) {
		t.Errorf("%v; want %v", err, ErrReplaying)
	}
}
