package koala_test

import (
	"net/url"
	"strings"
	"testing"
)

// nothingMet is the reply to changes that meet no rule.
const nothingMet = `{"err_no":-1, "err_msg":"the parameters meet no rule, so that nothing was counted; koalagate explain --door koala NAME=VALUE… lists the conditions that fail"}`

// dialogues lists requests of applications and the exact replies. Each dialogue has one
// store.
var dialogues = map[string][]exchange{
	"browse counts nothing": {
		{ask: "GET /rule/browse?act=post&uid=1", reply: allowed},
		{ask: "GET /rule/browse?act=post&uid=1", reply: allowed},
		{ask: "GET /rule/browse?act=post&uid=1", reply: allowed},
		{ask: "GET /rule/browse?act=read&uid=1", reply: noRule},
		{ask: "GET /rule/browse?uid=666", reply: by103},
		{ask: "GET /rule/browse", reply: noRule},
	},
	"browse and update, as applications do": {
		{ask: "GET /rule/browse?act=post&uid=1", reply: allowed},
		{ask: "GET /rule/update?act=post&uid=1", reply: done},
		{ask: "GET /rule/browse?act=post&uid=1", reply: allowed},
		{ask: "POST /rule/update act=post&uid=1", reply: done},
		{ask: "GET /rule/browse?act=post&uid=1", reply: by201},
		{ask: "GET /rule/browse?act=post&uid=2", reply: allowed},
	},
	"write-through takes, and counts no refused call": {
		{ask: "GET /rule/browse?act=post&uid=1&_writeThrough=yes", reply: allowed},
		{ask: "GET /rule/browse?act=post&uid=1&_writeThrough=no", reply: allowed},
		{ask: "POST /rule/browse?act=post uid=1&_writeThrough=yes", reply: allowed},
		{ask: "GET /rule/browse?act=post&uid=1&_writeThrough=yes", reply: by201},
		{ask: "GET /rule/value?act=post&uid=1&rule_no=201", reply: `{"err_no":0, "err_msg":"", "cache_val":2}`},
		{ask: "GET /rule/value?act=post&uid=1&rule_no=202", reply: `{"err_no":0, "err_msg":"", "cache_val":2}`},
	},
	"take and refund, with hits": {
		{ask: "GET /rule/take?act=post&uid=1&_hits=2", reply: allowed},
		{ask: "GET /rule/take?act=post&uid=1", reply: by201},
		{ask: "GET /rule/take?act=post&uid=1&_hits=0", reply: allowed},
		{ask: "GET /rule/refund?act=post&uid=1", reply: done},
		{ask: "GET /rule/take?act=post&uid=1", reply: allowed},
		{ask: "GET /rule/take?act=post&uid=3&_hits=3", reply: by201},
	},
	"complete lists every rule that would decide": {
		{ask: "GET /rule/browse_complete?act=read", reply: `[` + noRule + `]`},
		{ask: "GET /rule/browse_complete?act=post&uid=1&_writeThrough=yes", reply: `[` + noRule + `]`},
		{ask: "GET /rule/value?act=post&uid=1&rule_no=201", reply: `{"err_no":0, "err_msg":"", "cache_val":1}`},
		{ask: "GET /rule/update?act=post&uid=1&_hits=3", reply: done},
		{ask: "GET /rule/browse_complete?act=post&uid=1", reply: `[` + by201 + `,` + by202 + `]`},
		{ask: "GET /rule/browse_complete?act=post&uid=1&_writeThrough=yes", reply: `[` + by201 + `,` + by202 + `]`},
		{ask: "GET /rule/value?act=post&uid=1&rule_no=201", reply: `{"err_no":0, "err_msg":"", "cache_val":4}`},
	},
	"feedback gives back what the leak rule names": {
		{ask: "GET /rule/update?act=login&uid=1&_hits=5", reply: done},
		{ask: "GET /rule/browse?act=login&uid=1", reply: by301},
		{ask: "GET /rule/feedback?act=login&uid=1", reply: done},
		{ask: "GET /rule/value?act=login&uid=1&rule_no=301", reply: `{"err_no":0, "err_msg":"", "cache_val":4}`},
		{ask: "GET /rule/feedback?act=login&uid=1&_feedbackType=erase2", reply: done},
		{ask: "GET /rule/value?act=login&uid=1&rule_no=301", reply: `{"err_no":0, "err_msg":"", "cache_val":1}`},
		{ask: "GET /rule/feedback?act=login&uid=1&_feedbackType=erase3", reply: `{"err_no":-1, "err_msg":"unknown _feedbackType; want erase1 or erase2"}`, status: 400},
	},
	"value of a rule": {
		{ask: "GET /rule/value?act=post&uid=1&rule_no=201", reply: `{"err_no":0, "err_msg":"", "cache_val":0}`},
		{ask: "GET /rule/value?act=read&uid=1&rule_no=201", reply: `{"err_no":0, "err_msg":"", "cache_val":0}`},
		{ask: "GET /rule/value?uid=666&rule_no=103", reply: `{"err_no":0, "err_msg":"", "cache_val":0}`},
		{ask: "GET /rule/value?act=post&uid=1&rule_no=999", reply: `{"err_no":-2, "err_msg":"unknown rule_no!"}`, status: 400},
		{ask: "GET /rule/value?act=post&uid=1&rule_no=x", reply: `{"err_no":-1, "err_msg":"rule_no must be a number"}`, status: 400},
		{ask: "GET /rule/value?act=post&uid=1", reply: `{"err_no":-1, "err_msg":"rule_no must be a number"}`, status: 400},
	},
	"missing parameters are named": {
		{ask: "GET /rule/value?uid=1&rule_no=201", reply: `{"err_no":-1, "err_msg":"rule 201 needs the missing parameters: act"}`, status: 400},
		{ask: "GET /rule/value?act=post&uid=+&rule_no=201", reply: `{"err_no":-1, "err_msg":"rule 201 needs the missing parameters: uid"}`, status: 400},
		{ask: "GET /rule/value?rule_no=103", reply: `{"err_no":-1, "err_msg":"rule 103 needs the missing parameters: uid"}`, status: 400},
		{ask: "GET /rule/update?uid=1", reply: nothingMet, status: 400},
		{ask: "GET /rule/refund?act=post", reply: nothingMet, status: 400},
		{ask: "GET /rule/update?uid=666", reply: done},
	},
	"reset forgets one counter": {
		{ask: "GET /rule/update?act=post&uid=1&_hits=2", reply: done},
		{ask: "GET /rule/update?act=post&uid=2&_hits=2", reply: done},
		{ask: "GET /rule/take?act=post&uid=1", reply: by201},
		{ask: "GET /rule/reset?act=post&uid=1&ip=10.0.0.1&rule_no=201", reply: done},
		{ask: "GET /rule/value?act=post&uid=1&rule_no=201", reply: `{"err_no":0, "err_msg":"", "cache_val":0}`},
		{ask: "GET /rule/value?act=post&uid=1&rule_no=202", reply: `{"err_no":0, "err_msg":"", "cache_val":2}`},
		{ask: "GET /rule/value?act=post&uid=2&rule_no=201", reply: `{"err_no":0, "err_msg":"", "cache_val":2}`},
		{ask: "GET /rule/take?act=post&uid=1", reply: allowed},
		{ask: "GET /rule/reset?uid=2&rule_no=201", reply: done}, // act can have one value only
		{ask: "GET /rule/take?act=post&uid=2", reply: allowed},
	},
	"resets that name no counter": {
		{ask: "GET /rule/reset?act=post&rule_no=201", reply: `{"err_no":-1, "err_msg":"rule 201 counts by act, uid; missing parameters: uid"}`, status: 400},
		{ask: "GET /rule/reset?act=read&uid=1&rule_no=201", reply: `{"err_no":-1, "err_msg":"rule 201 counts by act, uid; its condition act=post does not hold"}`, status: 400},
		{ask: "GET /rule/reset?uid=666&rule_no=103", reply: `{"err_no":-1, "err_msg":"invalid call: the rule has no counter"}`, status: 400},
		{ask: "GET /rule/reset?act=post&uid=1&rule_no=999", reply: `{"err_no":-2, "err_msg":"unknown rule_no!"}`, status: 400},
		{ask: "GET /rule/reset?act=post&uid=1", reply: `{"err_no":-1, "err_msg":"rule_no must be a number"}`, status: 400},
	},
	"multi asks one question after the other": {
		{ask: "GET /rule/update?act=post&uid=1&_hits=2", reply: done},
		{
			ask:   multi(`[{"Id":"0","Arg":"act%3Dpost%26uid%3D1"},{"Id":"a\"b","Arg":"uid=666"},{"Id":"2","Arg":""}]`),
			reply: `[{"Id":"0","Result":` + by201 + `},{"Id":"a\"b","Result":` + by103 + `},{"Id":"2","Result":` + noRule + `}]`,
		},
		{ask: multi(`[]`), reply: `[]`},
		{ask: multi(`[{"Id":"0","Arg":"act=post&uid=2&_hits=x"}]`), reply: `{"err_no":-1, "err_msg":"_hits must be a number from 0 to 1000000000000000"}`, status: 400},
		{ask: multi(`{"Id":"0"`), reply: `{"err_no":-1, "err_msg":"argsJson must be a list of {\"Id\":\"…\",\"Arg\":\"…\"}"}`, status: 400},
		{ask: "GET /multi/browse", reply: `{"err_no":-1, "err_msg":"argsJson must be a list of {\"Id\":\"…\",\"Arg\":\"…\"}"}`, status: 400},
		{ask: multi("[" + strings.Repeat(`{"Id":"0","Arg":""},`, 256) + `{}]`), reply: `{"err_no":-1, "err_msg":"argsJson has more than 256 jobs"}`, status: 400},
	},
	"hits that are none": {
		{ask: "GET /rule/take?act=post&uid=1&_hits=x", reply: `{"err_no":-1, "err_msg":"_hits must be a number from 0 to 1000000000000000"}`, status: 400},
		{ask: "GET /rule/update?act=post&uid=1&_hits=-1", reply: `{"err_no":-1, "err_msg":"_hits must be a number from 0 to 1000000000000000"}`, status: 400},
		{ask: "GET /rule/update?act=post&uid=1&_hits=18446744073709551616", reply: `{"err_no":-1, "err_msg":"_hits must be a number from 0 to 1000000000000000"}`, status: 400},
		{ask: "GET /rule/update?act=post&uid=1&_hits=1000000000000001", reply: `{"err_no":-1, "err_msg":"_hits must be a number from 0 to 1000000000000000"}`, status: 400},
		{ask: "GET /rule/value?act=post&uid=1&rule_no=201", reply: `{"err_no":0, "err_msg":"", "cache_val":0}`},
		{ask: "GET /rule/take?act=post&uid=1&_hits=", reply: allowed},
	},
	"nothing in a query stops its reading": {
		{ask: "GET /rule/update?&&act=post&x&%zz=1&y=%&=7&uid=1&_hits=2&", reply: done},
		{ask: "GET /rule/browse?&x&act=post&&uid=1", reply: by201},
		{ask: "GET /rule/browse?act=post&uid=1&uid=2&act=read", reply: by201},
		{ask: "GET /rule/browse?act=post&uid=+1+", reply: by201},
		{ask: "GET /rule/browse?act=p%6fst&u%69d=1", reply: by201},
		{ask: "GET /rule/browse?act=post;uid=1", reply: noRule},
		{ask: "POST /rule/browse?act=post x&%&uid=1", reply: by201},
	},
	"paths": {
		{ask: "GET //rule/browse/?uid=666", reply: by103},
		{ask: "GET /rule/brows", reply: `{"err_no":-1, "err_msg":"not found"}`, status: 404},
		{ask: "GET /", reply: `{"err_no":-1, "err_msg":"not found"}`, status: 404},
		{ask: "DELETE /rule/browse?uid=666", reply: `{"err_no":-1, "err_msg":"want GET or POST"}`, status: 405},
		{ask: "GET /monitor/alive", reply: `{"errno": 0, "errmsg": "OK!"}`},
		{ask: "GET /admin/allrules", reply: ruleFile},
	},
}

// multi returns a call of /multi/browse with these jobs.
func multi(jobs string) string { return "GET /multi/browse?argsJson=" + url.QueryEscape(jobs) }

func TestDialogues(t *testing.T) {
	for name, dialogue := range dialogues {
		t.Run(name, func(t *testing.T) { dial(t, options(t)).expect(dialogue) })
	}
}
