package koala_test

import (
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/koala"
)

// inMode returns a caller of an API in a mode.
func inMode(t *testing.T, mode engine.Mode) *caller {
	t.Helper()
	m := memory.New(memory.Options{Clock: func() int64 { return noon }})
	t.Cleanup(m.Close)
	modes := new(engine.Modes)
	modes.Set(map[string]engine.Mode{"koala": mode})
	return dial(t, koala.Options{Engine: engine.New(parse(t, ruleFile), wiring.CountIn(m), engine.WithModes(modes)), Access: koala.Full})
}

func observedEntry(word string) string {
	return `{"Ret_type":1,"Ret_code":0,"Err_no":0,"Err_msg":"","Str_reason":"` + word + `","Need_vcode":0,"Vcode_len":0,"Vcode_type":0,"Other":"","Version":0}`
}

// An API in mode observe counts, and answers a refusal with an entry that allows and
// names the decision.
func TestObserve(t *testing.T) {
	inMode(t, engine.ModeObserve).expect([]exchange{
		{ask: "GET /rule/take?act=post&uid=1", reply: allowed},
		{ask: "GET /rule/take?act=post&uid=1", reply: allowed},
		{ask: "GET /rule/take?act=post&uid=1", reply: observedEntry("observed-deny")},
		{ask: "GET /rule/value?act=post&uid=1&rule_no=201", reply: `{"err_no":0, "err_msg":"", "cache_val":2}`},
		{ask: "GET /rule/browse_complete?act=post&uid=1", reply: "[" + observedEntry("observed-deny") + "]"},
		{ask: "GET /rule/browse?uid=666", reply: observedEntry("observed-deny")},
		{ask: "GET /rule/update?act=post&uid=1", reply: done},
		{ask: "GET /rule/value?act=post&uid=1&rule_no=201", reply: `{"err_no":0, "err_msg":"", "cache_val":3}`},
	})
}

// An API in mode off allows everything and changes no counter. It still reports
// counters.
func TestOff(t *testing.T) {
	inMode(t, engine.ModeOff).expect([]exchange{
		{ask: "GET /rule/take?act=post&uid=1", reply: allowed},
		{ask: "GET /rule/browse?uid=666", reply: allowed},
		{ask: "GET /rule/browse_complete?uid=666", reply: "[" + allowed + "]"},
		{ask: "GET /rule/update?act=post&uid=1", reply: done},
		{ask: "GET /rule/value?act=post&uid=1&rule_no=201", reply: `{"err_no":0, "err_msg":"", "cache_val":0}`},
	})
}
