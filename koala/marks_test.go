package koala_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/koala"
)

// TestMarks checks that entries have the marks of their call, in the order of the file and
// each once, also if another rule refuses, and that marked rules refuse nothing.
func TestMarks(t *testing.T) {
	m := memory.New(memory.Options{Clock: func() int64 { return noon }})
	t.Cleanup(m.Close)
	o := options(t)
	o.Engine = engine.New(parse(t, strings.Replace(ruleFile, "[rules]\n", `[rules]
rule : [count] [act=soft; uid=+] [time=90; count=1;] [result=2; return=401; mark=slow]
rule : [count] [act=soft; uid=+] [time=90; count=2;] [result=2; return=402; mark=cheap]
rule : [count] [act=soft; uid=+] [time=90; count=2;] [result=2; return=403; mark=slow]
rule : [count] [act=soft; uid=+] [time=90; count=4;] [result=2; return=404]
`, 1)), wiring.CountIn(m))
	door := koala.New(o)
	marked := func(entry, marks string) string { return strings.TrimSuffix(entry, "}") + `,"Marks":[` + marks + "]}" }
	by404 := strings.Replace(by201, "201", "404", 1)
	for i, c := range []struct{ target, want string }{
		{"/rule/take?act=soft&uid=1", allowed},
		{"/rule/take?act=soft&uid=1", marked(allowed, `"slow"`)},
		{"/rule/browse?act=soft&uid=1", marked(allowed, `"slow","cheap"`)},
		{"/rule/browse_complete?act=soft&uid=1&_writeThrough=yes", "[" + marked(noRule, `"slow","cheap"`) + "]"},
		{"/rule/take?act=soft&uid=1", marked(allowed, `"slow","cheap"`)},
		{"/rule/take?act=soft&uid=1", marked(by404, `"slow","cheap"`)},
		{"/rule/browse_complete?act=soft&uid=1", "[" + marked(by404, `"slow","cheap"`) + "]"},
		{`/multi/browse?argsJson=[{"Id":"0","Arg":"act%3Dsoft%26uid%3D1"}]`, `[{"Id":"0","Result":` + marked(by404, `"slow","cheap"`) + "}]"},
		{"/rule/value?rule_no=402&act=soft&uid=1", `{"err_no":0, "err_msg":"", "cache_val":4}`},
	} {
		w := httptest.NewRecorder()
		door.ServeHTTP(w, httptest.NewRequest("GET", c.target, nil))
		if got := w.Body.String(); got != c.want {
			t.Errorf("call %d, %s:\n got %s\nwant %s", i, c.target, got, c.want)
		}
	}
}
