package storetest

import "github.com/koalagate/koalagate/internal/store"

// outcomes are the cases of outcome rules.
var outcomes = []receiptCase{
	{"outcome: charged at the instant of the settlement, then refuses and bans", []receiptStep{
		{0, store.Take, "a", one(banning(3600, outcome(count(600, 2)))), gone, "ok; rule 0: 2 of 2, reset 600000 | receipt"},
		{1, store.Take, "b", one(banning(3600, outcome(count(600, 2)))), gone, "ok; rule 0: 2 of 2, reset 600000 | receipt"},
		{2, store.Take, "c", one(banning(3600, outcome(count(600, 2)))), gone, "ok; rule 0: 2 of 2, reset 600000 | receipt"},
		{10, settle, "a", nil, charged, "ok"},
		{11, settle, "b", nil, unsaid, "ok"},
		{12, store.Browse, "", one(outcome(count(600, 2))), gone, "ok; rule 0: 1 of 2, reset 599998"},
		{13, settle, "c", nil, charged, "ok"},
		{14, store.Browse, "", one(outcome(count(600, 2))), gone, "rule 0 refuses; rule 0: 0 of 2, reset 599996, retry 599996"},
		{20, store.Take, "d", one(banning(3600, outcome(count(600, 2)))), gone, "rule 0 refuses; rule 0: 0 of 2 banned, reset 3600000, retry 3600000"},
		{21, settle, "d", nil, charged, "unknown"},
	}},
	{"outcome: what must fit is 1, what is charged is the weight", []receiptStep{
		{0, store.Take, "a", one(weighing(9, outcome(leak(60, 10)))), gone, "ok; rule 0: 10 of 10, reset 0 | receipt"},
		{1, settle, "a", nil, store.Use{Concerns: true, Given: true, Hits: 1, Charge: true}, "ok"},
		{2, store.Take, "b", one(weighing(50, outcome(leak(60, 10)))), gone, "ok; rule 0: 1 of 10, reset 59999 | receipt"},
		{3, settle, "b", nil, charged, "ok"},
		{4, store.Browse, "", one(weighing(0, outcome(leak(60, 10)))), gone, "rule 0 refuses; rule 0: 0 of 10, reset 59999, retry 59999"},
		{60_001, store.Browse, "", one(outcome(leak(60, 10))), gone, "rule 0 refuses; rule 0: 0 of 10, reset 2, retry 2"},
		{60_003, store.Take, "c", one(weighing(0, outcome(leak(60, 10)))), gone, "ok; rule 0: 10 of 10, reset 0"},
		{60_004, settle, "c", nil, charged, "unknown"},
	}},
	{"outcome: a bucket stops at empty, with an overdraft below", []receiptStep{
		{0, store.Take, "a", one(weighing(7, outcome(token(1, 1, 5)))), gone, "ok; rule 0: 5 of 5, reset 0 | receipt"},
		{0, settle, "a", nil, charged, "ok"},
		{0, store.Browse, "", one(outcome(token(1, 1, 5))), gone, "rule 0 refuses; rule 0: 0 of 5, reset 5000, retry 1000"},
		{0, store.Take, "b", one(weighing(7, numbered(2, overdraft(outcome(token(1, 1, 5)))))), gone, "ok; rule 0: 5 of 5, reset 0 | receipt"},
		{0, settle, "b", nil, charged, "ok"},
		{0, store.Browse, "", one(numbered(2, overdraft(outcome(token(1, 1, 5))))), gone, "rule 0 refuses; rule 0: 0 of 5, reset 7000, retry 3000; 7 hits"},
		{1, store.Take, "", one(numbered(2, overdraft(outcome(token(1, 1, 5))))), gone, "rule 0 refuses; rule 0: 0 of 5, reset 6999, retry 2999; 7 hits"},
		{1, store.Peek, "", one(numbered(2, token(1, 1, 5))), gone, "ok; rule 0: 0 of 5, reset 6999; 7 hits"},
	}},
	{"outcome: no concern of update and refund", []receiptStep{
		{0, store.Take, "a", one(outcome(count(60, 3))), gone, "ok; rule 0: 3 of 3, reset 60000 | receipt"},
		{1, settle, "a", nil, charged, "ok"},
		{2, store.Update, "", one(weighing(5, outcome(count(60, 3)))), gone, "ok; rule 0: 2 of 3, reset 59999"},
		{3, store.Refund, "", one(weighing(5, outcome(count(60, 3)))), gone, "ok; rule 0: 2 of 3, reset 59998"},
	}},
	{"outcome: nothing during a ban, and a shadow rule is not charged for what it would have refused", []receiptStep{
		{0, store.Take, "a", one(shadow(banning(10, outcome(count(60, 1))))), gone, "ok | receipt"},
		{0, store.Take, "b", one(shadow(banning(10, outcome(count(60, 1))))), gone, "ok | receipt"},
		{1, settle, "a", nil, charged, "ok"},
		{2, store.Take, "c", one(shadow(banning(10, outcome(count(60, 1))))), gone, "ok; refusing [0]"},
		{3, settle, "c", nil, charged, "unknown"},
		{4, settle, "b", nil, charged, "ok"},
		{10_002, store.Browse, "", one(banning(10, outcome(count(60, 1)))), gone, "ok; rule 0: 1 of 1, reset 60000"},
	}},
}

// receiptCases are the cases that concern several kinds of rules.
var receiptCases = []receiptCase{
	{"receipts: an estimate, a hold and an outcome are settled as one", []receiptStep{
		{0, store.Take, "a", one(hold(30, 2), weighing(300, numbered(2, settling(count(3600, 1000)))), numbered(3, outcome(count(60, 2))), numbered(4, count(60, 9))), gone, "ok; rule 0: 1 of 2, reset 30000 | receipt"},
		{1000, settle, "a", nil, store.Use{Concerns: true, Given: true, Hits: 120, Charge: true}, "ok"},
		{1001, store.Peek, "", one(hold(30, 2)), gone, "ok; rule 0: 2 of 2, reset 0"},
		{1001, store.Peek, "", one(numbered(2, count(3600, 1000))), gone, "ok; rule 0: 880 of 1000, reset 3598999; 120 hits"},
		{1001, store.Peek, "", one(numbered(3, count(60, 2))), gone, "ok; rule 0: 1 of 2, reset 59999; 1 hits"},
		{1001, store.Peek, "", one(numbered(4, count(60, 9))), gone, "ok; rule 0: 8 of 9, reset 58999; 1 hits"},
	}},
	{"receipts: none for browse, a refusal, and rules without", []receiptStep{
		{0, store.Browse, "a", one(settling(count(60, 1)), numbered(2, hold(60, 1))), gone, "ok; rule 0: 1 of 1, reset 60000"},
		{0, store.Take, "a", one(settling(count(60, 1)), denied(numbered(2, count(60, 0)))), gone, "rule 1 refuses; rule 1: 0 of 0, reset 60000"},
		{0, store.Take, "a", []store.Set{denying(settling(count(60, 1)))}, gone, "ok; rule 0: 1 of 1, reset 60000"},
		{0, store.Take, "a", one(count(60, 1)), gone, "ok; rule 0: 0 of 1, reset 60000"},
		{0, settle, "a", nil, used(0), "unknown"},
	}},
	{"receipts: valid for the longest span of their rules, longer when renewed", []receiptStep{
		{0, store.Take, "a", one(settling(count(3600, 9)), numbered(2, hold(10, 9))), gone, "ok; rule 0: 8 of 9, reset 3600000 | receipt"},
		{59_999, settle, "a", nil, used(5), "ok"},
		{60_000, store.Take, "b", one(settling(count(3600, 9)), numbered(2, hold(100, 9))), gone, "ok; rule 0: 3 of 9, reset 3540000 | receipt"},
		{120_000, renew, "b", nil, gone, "ok"},
		{219_999, settle, "b", nil, used(3), "ok"},
		{219_999, store.Take, "c", one(settling(count(3600, 9)), numbered(2, hold(10, 9))), gone, "ok; rule 0: 0 of 9, reset 3380001 | receipt"},
		{240_000, renew, "c", nil, gone, "ok"},
		{240_001, store.Peek, "", one(numbered(2, hold(10, 9))), gone, "ok; rule 0: 9 of 9, reset 0"},
		{279_999, settle, "c", nil, used(3), "unknown"},
	}},
	{"receipts: a take that is cancelled counted nothing, and has no receipt", []receiptStep{
		{0, store.Take, "a", one(hold(30, 2), weighing(5, numbered(2, settling(count(60, 9)))), numbered(3, outcome(count(60, 2))), numbered(4, count(60, 9)), weighing(2, numbered(5, settling(token(1, 1, 5)))), numbered(6, leak(60, 9))), gone, "ok; rule 0: 1 of 2, reset 30000 | receipt"},
		{1, withdraw, "a", one(hold(30, 2), weighing(5, numbered(2, settling(count(60, 9)))), numbered(3, outcome(count(60, 2))), numbered(4, count(60, 9)), weighing(2, numbered(5, settling(token(1, 1, 5)))), numbered(6, leak(60, 9))), gone, "ok"},
		{2, settle, "a", nil, charged, "unknown"},
		{2, renew, "a", nil, gone, "unknown"},
		{2, store.Browse, "", one(hold(30, 2)), gone, "ok; rule 0: 2 of 2, reset 0"},
		{2, store.Browse, "", one(numbered(2, count(60, 9))), gone, "ok; rule 0: 9 of 9, reset 60000"},
		{2, store.Browse, "", one(numbered(3, count(60, 2))), gone, "ok; rule 0: 2 of 2, reset 60000"},
		{2, store.Browse, "", one(numbered(4, count(60, 9))), gone, "ok; rule 0: 9 of 9, reset 60000"},
		{2, store.Browse, "", one(numbered(5, token(1, 1, 5))), gone, "ok; rule 0: 5 of 5, reset 0"},
		{2, store.Browse, "", one(numbered(6, leak(60, 9))), gone, "ok; rule 0: 9 of 9, reset 0"},
	}},
	{"receipts: a take that is cancelled after a reset gives nothing back, also of rules without a part", []receiptStep{
		{0, store.Take, "a", one(settling(count(60, 9)), numbered(2, token(1, 1, 1))), gone, "ok; rule 1: 0 of 1, reset 1000 | receipt"},
		{0, store.Reset, "", one(numbered(2, token(1, 1, 1))), gone, "ok; rule 0: 1 of 1, reset 0"},
		{4, store.Take, "", one(numbered(2, token(1, 1, 1))), gone, "ok; rule 0: 0 of 1, reset 1000"},
		{9, withdraw, "a", one(settling(count(60, 9)), numbered(2, token(1, 1, 1))), gone, "ok"},
		{9, store.Peek, "", one(numbered(2, token(1, 1, 1))), gone, "ok; rule 0: 0 of 1, reset 995; 1 hits"},
		{9, store.Peek, "", one(count(60, 9)), gone, "ok; rule 0: 9 of 9, reset 60000"},
	}},
	{"receipts: a settled take is not cancelled", []receiptStep{
		{0, store.Take, "a", one(weighing(5, settling(count(60, 9)))), gone, "ok; rule 0: 4 of 9, reset 60000 | receipt"},
		{1, settle, "a", nil, used(3), "ok"},
		{2, withdraw, "a", one(weighing(5, settling(count(60, 9)))), gone, "ok"},
		{3, store.Browse, "", one(count(60, 9)), gone, "ok; rule 0: 6 of 9, reset 59997"},
	}},
}

// denied returns the rule with an answer that denies.
func denied(r store.Rule) store.Rule {
	r.Allows = false
	return r
}
