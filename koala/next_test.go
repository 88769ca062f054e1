package koala

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

// A call is used again: it keeps its memory, unless that is uncommonly large, and
// no text of the call before.
func TestACallKeepsNothingOfTheLast(t *testing.T) {
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
	counters := store.NewMemory(store.MemoryOptions{})
	defer counters.Close()
	s := New(Options{Engine: engine.New(set, wiring.CountIn(counters)), Access: Full}).(*server)
	for _, target := range []string{
		"/rule/take?act=post&uid=1",
		"/multi/browse?a=1&b=2&c=3&argsJson=" + `[{"Id":"0","Arg":"uid%253D1"}]`,
		"/rule/take?" + strings.Repeat("a=b&", 10_000),
	} {
		c := new(call)
		c.server, c.w, c.http, c.rules = s, httptest.NewRecorder(), httptest.NewRequest("GET", target, nil), set
		e, ok := c.endpoint()
		if !ok {
			t.Fatalf("%.40s is not answered", target)
		}
		e.answer(c)
		s.end(c)
		args := c.request.Args[:cap(c.request.Args)]
		if len(args) > 64 || c.params.Len() > 0 || c.http != nil {
			t.Errorf("%.40s: room for %d arguments is kept, and %+v", target, len(args), c.params)
		}
		for _, a := range args {
			if a != (mapping.Entry{}) {
				t.Errorf("%.40s: %q is kept", target, a)
			}
		}
	}
}
