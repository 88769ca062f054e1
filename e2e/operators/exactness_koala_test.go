package operators_test

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

const koalaRules = `
[rules]
rule : [direct] [uid=666] [time=1; count=0;] [result=2; return=100]
rule : [count] [act=post; uid=+] [time=3600; count=2;] [result=2; return=201]
rule : [base] [act=base; uid=+] [base=2; time=3600; count=1;] [result=2; return=301]
rule : [leak] [act=login; uid=+] [time=3600; count=5; erase1=1; erase2=3] [result=3; return=401]
rule : [token] [act=burst; uid=+] [time=3600; count=1; burst=3;] [result=2; return=501]
[result]
0 : {"Ret_type":0, "Err_no":0, "Str_reason":"Allow"}
1 : {"Ret_type":1, "Err_no":0, "Str_reason":"Allow"}
2 : {"Ret_type":2, "Err_no":10, "Str_reason":"Deny"}
3 : {"Ret_type":3, "Err_no":20, "Err_msg":"验证码", "Str_reason":"Vcode", "Need_vcode":1, "Vcode_len":4}
`

// Koala's replies, word for word.
const (
	koalaDone = `{"err_no":0, "err_msg":"OK"}`
	koalaNone = `{"Ret_type":0,"Ret_code":0,"Err_no":0,"Err_msg":"","Str_reason":"Allow","Need_vcode":0,"Vcode_len":0,"Vcode_type":0,"Other":"","Version":0}`
	koalaPass = `{"Ret_type":1,"Ret_code":0,"Err_no":0,"Err_msg":"","Str_reason":"Allow","Need_vcode":0,"Vcode_len":0,"Vcode_type":0,"Other":"","Version":0}`
)

func koalaDeny(rule int) string {
	return fmt.Sprintf(`{"Ret_type":2,"Ret_code":%d,"Err_no":10,"Err_msg":"","Str_reason":"Deny","Need_vcode":0,"Vcode_len":0,"Vcode_type":0,"Other":"","Version":0}`, rule)
}

func koalaCaptcha(rule int) string {
	return fmt.Sprintf(`{"Ret_type":3,"Ret_code":%d,"Err_no":20,"Err_msg":"验证码","Str_reason":"Vcode","Need_vcode":1,"Vcode_len":4,"Vcode_type":0,"Other":"","Version":0}`, rule)
}

func koalaValue(n int) string { return fmt.Sprintf(`{"err_no":0, "err_msg":"", "cache_val":%d}`, n) }

// koalaDialogue lists requests of an application with the JSON answers.
var koalaDialogue = []struct{ path, want string }{
	// Browse, and update afterwards.
	{"/rule/browse?act=read&uid=1", koalaNone},
	{"/rule/browse?uid=666", koalaDeny(100)},
	{"/rule/browse?act=post&uid=1", koalaPass},
	{"/rule/update?act=post&uid=1", koalaDone},
	{"/rule/update?act=post&uid=1", koalaDone},
	{"/rule/browse?act=post&uid=1", koalaDeny(201)},
	{"/rule/value?act=post&uid=1&rule_no=201", koalaValue(2)},
	// Both in one step: refused requests are not counted.
	{"/rule/browse?act=post&uid=2&_writeThrough=yes", koalaPass},
	{"/rule/browse?act=post&uid=2&_writeThrough=yes&_hits=2", koalaDeny(201)},
	{"/rule/browse?act=post&uid=2&_writeThrough=yes", koalaPass},
	{"/rule/browse?act=post&uid=2&_writeThrough=yes", koalaDeny(201)},
	{"/rule/value?act=post&uid=2&rule_no=201", koalaValue(2)},
	// Several requests in one, and all rules that would decide.
	{
		"/multi/browse?argsJson=" + url.QueryEscape(`[{"Id":"a","Arg":"act=post&uid=1"},{"Id":"b","Arg":"act=post&uid=3"},{"Id":"c","Arg":"uid=666"}]`),
		`[{"Id":"a","Result":` + koalaDeny(201) + `},{"Id":"b","Result":` + koalaPass + `},{"Id":"c","Result":` + koalaDeny(100) + `}]`,
	},
	{"/rule/browse_complete?act=post&uid=1", `[` + koalaDeny(201) + `]`},
	{"/rule/browse_complete?act=post&uid=3&_writeThrough=yes", `[` + koalaNone + `]`},
	{"/rule/value?act=post&uid=3&rule_no=201", koalaValue(1)},
	// After a solved captcha, feedback gives hits back.
	{"/rule/update?act=login&uid=1&_hits=5", koalaDone},
	{"/rule/browse?act=login&uid=1", koalaCaptcha(401)},
	{"/rule/feedback?act=login&uid=1&_feedbackType=erase1", koalaDone},
	{"/rule/value?act=login&uid=1&rule_no=401", koalaValue(4)},
	{"/rule/feedback?act=login&uid=1&_feedbackType=erase2", koalaDone},
	{"/rule/value?act=login&uid=1&rule_no=401", koalaValue(1)},
	{"/rule/browse?act=login&uid=1", koalaPass},
	// The other methods, and refunds.
	{"/rule/take?act=base&uid=1&_hits=2", koalaPass},
	{"/rule/take?act=base&uid=1", koalaDeny(301)},
	{"/rule/value?act=base&uid=1&rule_no=301", koalaValue(2)}, // the count of the day
	{"/rule/refund?act=base&uid=1", koalaDone},
	{"/rule/value?act=base&uid=1&rule_no=301", koalaValue(1)},
	{"/rule/take?act=base&uid=1", koalaPass},
	{"/rule/update?act=base&uid=1&_hits=3", koalaDone},
	{"/rule/value?act=base&uid=1&rule_no=301", koalaValue(5)},
	{"/rule/take?act=burst&uid=1&_hits=3", koalaPass},
	{"/rule/take?act=burst&uid=1", koalaDeny(501)},
	{"/rule/value?act=burst&uid=1&rule_no=501", koalaValue(3)},
	{"/rule/refund?act=burst&uid=1&_hits=2", koalaDone},
	{"/rule/take?act=burst&uid=1&_hits=2", koalaPass},
	{"/rule/take?act=burst&uid=1&_hits=1", koalaDeny(501)},
	{"/rule/take?act=burst&uid=1&_hits=0", koalaPass},
	{"/rule/update?act=burst&uid=1&_hits=2147483648", koalaDone}, // stops at an empty bucket
	{"/rule/value?act=burst&uid=1&rule_no=501", koalaValue(3)},
	// All rules of a request at once, and every method in one call of many.
	{"/rule/update?act=login&uid=1&_hits=9", koalaDone},
	{"/rule/browse_complete?act=base&uid=1", `[` + koalaDeny(301) + `]`},
	{"/rule/browse_complete?act=login&uid=1&_writeThrough=yes", `[` + koalaCaptcha(401) + `]`},
	{"/rule/browse_complete?act=burst&uid=666", `[` + koalaDeny(100) + `]`},
	{"/rule/browse_complete?act=burst&uid=1&_hits=0", `[` + koalaNone + `]`},
	{
		"/multi/browse?argsJson=" + url.QueryEscape(`[{"Id":"1","Arg":"act%3Dpost%26uid%3D1"},{"Id":"2","Arg":"act%3Dbase%26uid%3D1"},{"Id":"3","Arg":"act=login&uid=1"},{"Id":"4","Arg":"act=burst&uid=1"},{"Id":"5","Arg":"act=burst&uid=1&_hits=0"},{"Id":"6","Arg":"uid=666"},{"Id":"7","Arg":""}]`),
		`[{"Id":"1","Result":` + koalaDeny(201) + `},{"Id":"2","Result":` + koalaDeny(301) + `},{"Id":"3","Result":` + koalaCaptcha(401) + `},{"Id":"4","Result":` + koalaDeny(501) + `},{"Id":"5","Result":` + koalaPass + `},{"Id":"6","Result":` + koalaDeny(100) + `},{"Id":"7","Result":` + koalaNone + `}]`,
	},
	// Feedback and refunds give hits back in every method, never below zero.
	{"/rule/feedback?act=login&uid=1&_feedbackType=erase2", koalaDone},
	{"/rule/value?act=login&uid=1&rule_no=401", koalaValue(7)},
	{"/rule/feedback?act=post&uid=1", koalaDone}, // a count rule without erase1 does not change
	{"/rule/value?act=post&uid=1&rule_no=201", koalaValue(2)},
	{"/rule/refund?act=post&uid=1&_hits=9", koalaDone},
	{"/rule/refund?act=base&uid=1&_hits=9", koalaDone},
	{"/rule/refund?act=login&uid=1&_hits=9", koalaDone},
	{"/rule/refund?act=burst&uid=1&_hits=9", koalaDone},
	{"/rule/value?act=post&uid=1&rule_no=201", koalaValue(0)},
	{"/rule/value?act=base&uid=1&rule_no=301", koalaValue(0)},
	{"/rule/value?act=login&uid=1&rule_no=401", koalaValue(0)},
	{"/rule/value?act=burst&uid=1&rule_no=501", koalaValue(0)},
	{"/rule/value?uid=666&rule_no=100", koalaValue(0)},
}

// An application gets the same answers from an instance that counts in process, and
// from two instances with one Redis that it calls in turn.
func TestKoalaAPIAnswersWordForWord(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	rules := h.File("rules.conf", koalaRules)
	setups := map[string][]*e2e.Koalagate{
		"in process":          {h.Koalagate("--rules", rules)},
		"in process, all off": {h.KoalagateWith(rig.OptimizationsOff, "--rules", rules)},
	}
	for _, way := range rig.Ways {
		setups["two on one Redis, "+way.Name] = h.PairWith(way, rules)
	}
	for name, instances := range setups {
		t.Run(name, func(t *testing.T) {
			rig.AvoidMidnight(t)
			for i, q := range koalaDialogue {
				if got := rig.Send(t, "GET", "http://"+instances[i%len(instances)].HTTP+q.path); got.Status != 200 || got.Body != q.want {
					t.Errorf("%s answers\n%d %s\nwant\n200 %s", q.path, got.Status, got.Body, q.want)
				}
			}
		})
	}
}
