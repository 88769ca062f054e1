package storetest

import "github.com/koalagate/koalagate/internal/store"

// estimates are the cases of count rules that settle.
var estimates = []receiptCase{
	{"settle: less is given back, more is recorded past the limit", []receiptStep{
		{0, store.Take, "a", one(weighing(6, settling(count(60, 10)))), gone, "ok; rule 0: 4 of 10, reset 60000 | receipt"},
		{1, store.Take, "b", one(weighing(4, settling(count(60, 10)))), gone, "ok; rule 0: 0 of 10, reset 59999 | receipt"},
		{2, settle, "a", nil, used(1), "ok"},
		{2, store.Peek, "", one(count(60, 10)), gone, "ok; rule 0: 5 of 10, reset 59998; 5 hits"},
		{3, settle, "b", nil, used(20), "ok"},
		{3, store.Peek, "", one(count(60, 10)), gone, "ok; rule 0: 0 of 10, reset 59997; 21 hits"},
	}},
	{"settle: without hits, and of a rule that is gone, the estimate stands", []receiptStep{
		{0, store.Take, "a", one(weighing(3, settling(count(60, 10)))), gone, "ok; rule 0: 7 of 10, reset 60000 | receipt"},
		{0, store.Take, "b", one(weighing(3, settling(count(60, 10)))), gone, "ok; rule 0: 4 of 10, reset 60000 | receipt"},
		{1, settle, "a", nil, unsaid, "ok"},
		{1, settle, "b", nil, gone, "ok"},
		{1, store.Peek, "", one(count(60, 10)), gone, "ok; rule 0: 4 of 10, reset 59999; 6 hits"},
		{2, settle, "a", nil, used(0), "unknown"},
	}},
	{"settle: a window refunded to nothing stays open; one that has closed or was reset stays as it is", []receiptStep{
		{0, store.Take, "a", one(weighing(3, settling(count(10, 5)))), gone, "ok; rule 0: 2 of 5, reset 10000 | receipt"},
		{1, settle, "a", nil, used(0), "ok"},
		{2, store.Take, "b", one(weighing(3, settling(count(10, 5)))), gone, "ok; rule 0: 2 of 5, reset 9998 | receipt"},
		{10000, store.Take, "c", one(weighing(1, settling(count(10, 5)))), gone, "ok; rule 0: 4 of 5, reset 10000 | receipt"},
		{10001, settle, "b", nil, used(0), "ok"},
		{10001, store.Reset, "", one(count(10, 5)), gone, "ok; rule 0: 5 of 5, reset 10000"},
		{10002, store.Take, "", one(weighing(2, count(10, 5))), gone, "ok; rule 0: 3 of 5, reset 10000"},
		{10003, settle, "c", nil, used(9), "ok"},
		{10004, store.Peek, "", one(count(10, 5)), gone, "ok; rule 0: 3 of 5, reset 9998; 2 hits"},
	}},
	{"settle: what was reserved before a ban is gone", []receiptStep{
		{0, store.Take, "a", one(weighing(2, banning(1, settling(count(60, 2))))), gone, "ok; rule 0: 0 of 2, reset 60000 | receipt"},
		{1, store.Take, "", one(banning(1, settling(count(60, 2)))), gone, "rule 0 refuses; rule 0: 0 of 2 banned, reset 1000, retry 1000"},
		{2, settle, "a", nil, used(7), "ok"},
		{1001, store.Take, "b", one(banning(1, settling(count(60, 2)))), gone, "ok; rule 0: 1 of 2, reset 60000 | receipt"},
	}},
	{"settle: an estimate of 0 needs room for 1, and is recorded in the window of now", []receiptStep{
		{0, store.Take, "a", one(weighing(0, settling(count(60, 5)))), gone, "ok; rule 0: 5 of 5, reset 60000 | receipt"},
		{10, settle, "a", nil, used(2), "ok"},
		{20, store.Take, "b", one(weighing(0, settling(count(60, 5)))), gone, "ok; rule 0: 3 of 5, reset 59990 | receipt"},
		{30, settle, "b", nil, used(3), "ok"},
		{40, store.Take, "", one(weighing(0, settling(count(60, 5)))), gone, "rule 0 refuses; rule 0: 0 of 5, reset 59970, retry 59970"},
		{50, store.Take, "", one(weighing(0, count(60, 5))), gone, "ok; rule 0: 0 of 5, reset 59960"},
	}},
	{"settle: several sets reserve one sum", []receiptStep{
		{0, store.Take, "a", []store.Set{of(weighing(0, settling(count(60, 20)))), of(weighing(3, settling(count(60, 20)))), of(weighing(2, about("v", settling(count(60, 20))))), of(weighing(1, settling(count(60, 20))))}, gone, "ok; rule 0: 20 of 20, reset 60000 | ok; rule 0: 17 of 20, reset 60000 | ok; rule 0: 18 of 20, reset 60000 | ok; rule 0: 16 of 20, reset 60000 | receipt"},
		{1, settle, "a", nil, used(5), "ok"},
		{1, store.Peek, "", one(count(60, 20)), gone, "ok; rule 0: 15 of 20, reset 59999; 5 hits"},
		{1, store.Peek, "", one(about("v", count(60, 20))), gone, "ok; rule 0: 15 of 20, reset 59999; 5 hits"},
	}},
	{"settle: no receipt if one of several sets refuses", []receiptStep{
		{0, store.Take, "a", []store.Set{of(settling(count(60, 5))), of(weighing(2, about("v", count(60, 1))))}, gone, "ok; rule 0: 5 of 5, reset 60000 | rule 0 refuses; rule 0: 1 of 1, reset 60000"},
		{1, settle, "a", nil, used(5), "unknown"},
	}},
	{"settle: a decider that allows has a part in what its overdraft recorded, a shadow rule that refuses has none", []receiptStep{
		{0, store.Take, "a", one(weighing(4, allowing(overdraft(settling(count(60, 5)))))), gone, "ok; rule 0: 1 of 5, reset 60000 | receipt"},
		{1, store.Take, "b", one(weighing(4, allowing(overdraft(settling(count(60, 5)))))), gone, "rule 0 refuses; rule 0: 0 of 5, reset 59999, retry 59999; 8 hits | receipt"},
		{2, settle, "b", nil, used(1), "ok"},
		{2, store.Peek, "", one(count(60, 5)), gone, "ok; rule 0: 0 of 5, reset 59998; 5 hits"},
		{3, store.Take, "c", one(weighing(0, allowing(overdraft(settling(count(60, 5)))))), gone, "rule 0 refuses; rule 0: 0 of 5, reset 59997, retry 59997; 5 hits"},
		{4, store.Take, "d", one(shadow(overdraft(settling(count(60, 5))))), gone, "ok; refusing [0]"},
		{5, settle, "d", nil, used(0), "unknown"},
	}},
	{"settle: no receipt for an overdraft that a ban does not record", []receiptStep{
		{0, store.Take, "", one(weighing(5, banning(10, count(60, 5)))), gone, "ok; rule 0: 0 of 5, reset 60000"},
		{1, store.Take, "", one(banning(10, count(60, 5))), gone, "rule 0 refuses; rule 0: 0 of 5 banned, reset 10000, retry 10000"},
		{2, store.Take, "a", one(weighing(9, allowing(banning(10, overdraft(settling(count(60, 5))))))), gone, "rule 0 refuses; rule 0: 0 of 5 banned, reset 9999, retry 9999"},
		{3, settle, "a", nil, used(0), "unknown"},
	}},
}

// leakEstimates are the cases of leak rules that settle.
var leakEstimates = []receiptCase{
	{"settle: of leak at the request's own instant", []receiptStep{
		{0, store.Take, "a", one(weighing(3, settling(leak(10, 10)))), gone, "ok; rule 0: 7 of 10, reset 10000 | receipt"},
		{4000, store.Take, "b", one(weighing(2, settling(leak(10, 10)))), gone, "ok; rule 0: 5 of 10, reset 10000 | receipt"},
		{5000, settle, "a", nil, used(8), "ok"},
		{5001, store.Browse, "", one(leak(10, 10)), gone, "rule 0 refuses; rule 0: 0 of 10, reset 8999, retry 4999"},
		{10000, store.Browse, "", one(leak(10, 10)), gone, "ok; rule 0: 8 of 10, reset 4000"},
		{11000, settle, "b", nil, used(1), "ok"},
		{11000, store.Browse, "", one(leak(10, 10)), gone, "ok; rule 0: 9 of 10, reset 3000"},
		{14000, store.Take, "c", one(weighing(4, settling(leak(10, 10)))), gone, "ok; rule 0: 6 of 10, reset 10000 | receipt"},
		{24000, settle, "c", nil, used(9), "ok"},
		{24000, store.Browse, "", one(leak(10, 10)), gone, "ok; rule 0: 10 of 10, reset 0"},
		{23999, store.Browse, "", one(leak(10, 10)), gone, "ok; rule 0: 6 of 10, reset 1"},
	}},
	{"settle: of leak nothing where nothing of its instant is left", []receiptStep{
		{0, store.Take, "a", one(weighing(3, settling(leak(100, 20)))), gone, "ok; rule 0: 17 of 20, reset 100000 | receipt"},
		{0, store.Take, "b", one(weighing(2, settling(leak(100, 20)))), gone, "ok; rule 0: 15 of 20, reset 100000 | receipt"},
		{1000, store.Take, "c", one(weighing(4, settling(leak(100, 20)))), gone, "ok; rule 0: 11 of 20, reset 100000 | receipt"},
		{2000, store.Refund, "", one(weighing(6, leak(100, 20))), gone, "ok; rule 0: 17 of 20, reset 98000"},
		{2001, settle, "a", nil, used(0), "ok"},
		{2002, store.Browse, "", one(leak(100, 20)), gone, "ok; rule 0: 20 of 20, reset 0"},
		{2003, settle, "c", nil, used(9), "ok"},
		{2004, settle, "b", nil, used(5), "ok"},
		{2005, store.Browse, "", one(leak(100, 20)), gone, "ok; rule 0: 20 of 20, reset 0"},
	}},
	{"settle: of leak an estimate of 0 is recorded when it is settled", []receiptStep{
		{0, store.Take, "a", one(weighing(0, settling(leak(10, 5)))), gone, "ok; rule 0: 5 of 5, reset 0 | receipt"},
		{3000, settle, "a", nil, used(7), "ok"},
		{3001, store.Browse, "", one(leak(10, 5)), gone, "rule 0 refuses; rule 0: 0 of 5, reset 9999, retry 9999"},
		{3002, store.Take, "", one(weighing(0, settling(leak(10, 5)))), gone, "rule 0 refuses; rule 0: 0 of 5, reset 9998, retry 9998"},
	}},
}

// bucketEstimates are the cases of token rules that settle.
var bucketEstimates = []receiptCase{
	{"settle: of a bucket, less what would have overflowed", []receiptStep{
		{0, store.Take, "a", one(weighing(10, settling(token(1, 10, 10)))), gone, "ok; rule 0: 0 of 10, reset 1000 | receipt"},
		{1000, store.Take, "", one(weighing(10, token(1, 10, 10))), gone, "ok; rule 0: 0 of 10, reset 1000"},
		{1000, settle, "a", nil, used(0), "ok"},
		{1000, store.Browse, "", one(token(1, 10, 10)), gone, "rule 0 refuses; rule 0: 0 of 10, reset 1000, retry 100"},
		{5000, store.Take, "b", one(weighing(10, settling(token(1, 10, 10)))), gone, "ok; rule 0: 0 of 10, reset 1000 | receipt"},
		{5500, store.Take, "c", one(weighing(5, settling(token(1, 10, 10)))), gone, "ok; rule 0: 0 of 10, reset 1000 | receipt"},
		{5600, settle, "b", nil, used(2), "ok"},
		{5600, store.Browse, "", one(token(1, 10, 10)), gone, "ok; rule 0: 5 of 10, reset 500"},
		{5800, settle, "c", nil, used(1), "ok"},
		{5800, store.Browse, "", one(token(1, 10, 10)), gone, "ok; rule 0: 10 of 10, reset 0"},
	}},
	{"settle: a bucket gives back less by its overflow since the part's set, whatever later sets recorded", []receiptStep{
		{0, store.Take, "a", []store.Set{of(weighing(3, settling(token(1, 10, 10)))), of(weighing(20, shadow(overdraft(settling(token(1, 10, 10))))))}, gone, "ok; rule 0: 7 of 10, reset 300 | ok; refusing [0] | receipt"},
		{200, settle, "a", nil, used(0), "ok"},
		{200, store.Browse, "", one(token(1, 10, 10)), gone, "rule 0 refuses; rule 0: 0 of 10, reset 2000, retry 1100"},
	}},
	{"settle: a bucket owes what was used beyond, an estimate of 0 too", []receiptStep{
		{0, store.Take, "a", one(weighing(5, settling(token(1, 10, 10)))), gone, "ok; rule 0: 5 of 10, reset 500 | receipt"},
		{0, settle, "a", nil, used(25), "ok"},
		{0, store.Browse, "", one(token(1, 10, 10)), gone, "rule 0 refuses; rule 0: 0 of 10, reset 2500, retry 1600"},
		{5000, store.Take, "b", one(weighing(0, settling(token(1, 10, 10)))), gone, "ok; rule 0: 10 of 10, reset 0 | receipt"},
		{5000, settle, "b", nil, used(25), "ok"},
		{5000, store.Browse, "", one(token(1, 10, 10)), gone, "rule 0 refuses; rule 0: 0 of 10, reset 2500, retry 1600"},
		{6599, store.Take, "", one(weighing(0, settling(token(1, 10, 10)))), gone, "rule 0 refuses; rule 0: 0 of 10, reset 901, retry 1"},
	}},
	{"settle: more than reserved of a bucket that was never used", []receiptStep{
		{0, store.Take, "a", one(weighing(0, numbered(2, settling(token(1, 10, 10))))), gone, "ok; rule 0: 10 of 10, reset 0 | receipt"},
		{30_000, settle, "a", nil, used(25), "ok"},
		{30_000, store.Browse, "", one(numbered(2, token(1, 10, 10))), gone, "rule 0 refuses; rule 0: 0 of 10, reset 2500, retry 1600"},
	}},
}
