package koala

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

// TestEndedCallKeepsNothing checks that a call keeps its memory for the next call,
// unless it is unusually large, and no string of the last one.
func TestEndedCallKeepsNothing(t *testing.T) {
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(`
[rules]
rule : [direct] [uid=1] [] [result=0; return=1]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
`)}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	counters := memory.New(memory.Options{})
	defer counters.Close()
	s := New(Options{Engine: engine.New(set, wiring.CountIn(counters)), Access: Full, Hosts: []string{"example.com"}}).(*server)
	for _, target := range []string{
		"/rule/take?act=post&uid=1",
		"/multi/browse?a=1&b=2&c=3&argsJson=" + `[{"Id":"0","Arg":"uid%253D1"}]`,
		"/rule/take?" + strings.Repeat("a=b&", 10_000),
	} {
		c := new(call)
		c.server, c.w, c.http = s, httptest.NewRecorder(), httptest.NewRequest("GET", target, nil)
		s.gate.Begin(&c.question, 1)
		e, ok := c.endpoint()
		if !ok {
			t.Fatalf("%.40s is not answered", target)
		}
		e.answer(c)
		s.end(c)
		args := c.question.Request.Args[:cap(c.question.Request.Args)]
		if len(args) > 64 || len(c.question.Inputs()) > 0 || c.http != nil {
			t.Errorf("%.40s: the ended call keeps memory for %d arguments, and %+v", target, len(args), c)
		}
		for _, a := range args {
			if a != (mapping.Entry{}) {
				t.Errorf("%.40s: %q is kept", target, a)
			}
		}
	}
}
