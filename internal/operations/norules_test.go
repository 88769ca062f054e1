package operations

import (
	"errors"
	"testing"

	"github.com/koalagate/koalagate/engine"
)

const oneRule = `[rules]
rule : [count] [uid=+] [time=60; count=5] [result=2; return=1]
[result]
0 : {}
1 : {}
2 : {"Err_no":10}
`

// Before the first rules there is nothing to read, to ask about or to compare with.
func TestDeskBeforeTheFirstRules(t *testing.T) {
	d := New(Options{Engine: engine.New(nil), Log: DecisionLog{Path: "decisions.jsonl"}})
	ann, files := Identity{"uid": "ann"}, []File{{"rules.conf", oneRule}}
	if b, err := d.Book(t.Context()); err != nil || b.Hash != "" || len(b.Files)+len(b.Rules)+len(b.Results)+len(b.Findings) > 0 {
		t.Errorf("the book is %+v", b)
	}
	checked, err := d.Check(t.Context(), &Draft{files})
	if err != nil || checked.Errors > 0 || checked.Changes != nil {
		t.Errorf("the check of a draft: %+v, %v; want no errors and no changes", checked, err)
	}
	if report, err := d.Explain(t.Context(), &Explanation{Question{Params: ann}, files}); err != nil || report == nil {
		t.Errorf("an explanation by a draft: %v", err)
	}
	for name, ask := range map[string]func() error{
		"why an identity": func() error { _, err := d.Why(t.Context(), &Question{Params: ann}); return err },
		"why a request":   func() error { _, err := d.Why(t.Context(), &Question{Request: &Request{Target: "/"}}); return err },
		"explain": func() error {
			_, err := d.Explain(t.Context(), &Explanation{Question: Question{Params: ann}})
			return err
		},
		"replay": func() error { _, err := d.Replay(t.Context(), &Replay{Draft{files}, 1000}); return err },
		"reset":  func() error { _, err := d.Reset(t.Context(), 1, ann, ""); return err },
	} {
		if err := ask(); !errors.Is(err, errNoRules) {
			t.Errorf("%s: the error is %v; want %v", name, err, errNoRules)
		}
	}
}
