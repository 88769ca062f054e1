package storetest

import "github.com/koalagate/koalagate/internal/store"

// marks are the cases of rules that let pass, and count, what they refuse.
var marks = []behavior{
	{name: "mark: what it refuses passes and counts beyond the limit, a rule below refuses", steps: []step{
		{0, store.Take, one(marked(count(60, 1)), numbered(2, count(60, 3))), []string{"ok; rule 0: 0 of 1, reset 60000"}},
		{1, store.Take, one(marked(count(60, 1)), numbered(2, count(60, 3))), []string{"ok; rule 0: 0 of 1, reset 59999; refusing [0]"}},
		{2, store.Browse, one(marked(count(60, 1)), numbered(2, count(60, 3))), []string{"ok; rule 0: 0 of 1, reset 59998; refusing [0]"}},
		{3, store.Take, one(marked(count(60, 1)), numbered(2, count(60, 3))), []string{"ok; rule 0: 0 of 1, reset 59997; refusing [0]"}},
		{4, store.Take, one(marked(count(60, 1)), numbered(2, count(60, 3))), []string{"rule 1 refuses; rule 1: 0 of 3, reset 59996, retry 59996; refusing [0]"}},
		{5, store.Peek, one(count(60, 1)), []string{"ok; rule 0: 0 of 1, reset 59995; 3 hits"}},
		{6, store.Refund, one(weighing(2, marked(count(60, 1)))), []string{"ok; rule 0: 0 of 1, reset 59994"}},
		{7, store.Peek, one(count(60, 1)), []string{"ok; rule 0: 0 of 1, reset 59993; 1 hits"}},
	}},
	{name: "mark: of a rule that allows, beside a shadow rule", steps: []step{
		{0, store.Take, one(weighing(2, shadow(count(60, 1))), weighing(2, allowing(marked(numbered(2, count(60, 1))))), numbered(3, count(60, 9))), []string{"ok; rule 1: 0 of 1, reset 60000; refusing [0 1]"}},
		{1, store.Peek, one(count(60, 1)), []string{"ok; rule 0: 1 of 1, reset 60000"}},
		{1, store.Peek, one(numbered(2, count(60, 1))), []string{"ok; rule 0: 0 of 1, reset 59999; 2 hits"}},
		{1, store.Peek, one(numbered(3, count(60, 9))), []string{"ok; rule 0: 8 of 9, reset 59999; 1 hits"}},
	}},
	{name: "mark: by base and leak", steps: []step{
		{0, store.Take, one(weighing(2, marked(base(1, 10, 1))), weighing(3, marked(numbered(2, leak(10, 2))))), []string{"ok; rule 0: 0 of 1, reset 10000; refusing [0 1]"}},
		{1, store.Take, one(marked(base(1, 10, 1)), marked(numbered(2, leak(10, 2)))), []string{"ok; rule 0: 0 of 1, reset 9999; refusing [0 1]"}},
		{2, store.Peek, one(base(1, 10, 1)), []string{"ok; rule 0: 0 of 1, reset 9998; 3 hits"}},
		{2, store.Peek, one(numbered(2, leak(10, 2))), []string{"ok; rule 0: 0 of 2, reset 9999; 4 hits"}},
		{10_000, store.Browse, one(marked(numbered(2, leak(10, 2)))), []string{"ok; rule 0: 1 of 2, reset 1"}},
	}},
	{name: "mark: a bucket goes below empty, and an update stops there", steps: []step{
		{0, store.Take, one(weighing(8, marked(token(1, 10, 10)))), []string{"ok; rule 0: 2 of 10, reset 800"}},
		{0, store.Take, one(weighing(5, marked(token(1, 10, 10)))), []string{"ok; rule 0: 0 of 10, reset 1300; refusing [0]"}},
		{0, store.Browse, one(weighing(0, marked(token(1, 10, 10)))), []string{"ok; rule 0: 0 of 10, reset 1300; refusing [0]"}},
		{0, store.Update, one(weighing(5, marked(token(1, 10, 10)))), []string{"ok; rule 0: 0 of 10, reset 1300"}},
		{400, store.Take, one(marked(token(1, 10, 10))), []string{"ok; rule 0: 0 of 10, reset 1000"}},
		{500, store.Update, one(weighing(5, marked(token(1, 10, 10)))), []string{"ok; rule 0: 0 of 10, reset 1000"}},
		{500, store.Update, one(weighing(5, overdraft(marked(token(1, 10, 10))))), []string{"ok; rule 0: 0 of 10, reset 1500"}},
		{500, store.Take, one(weighing(11, marked(token(1, 10, 10)))), []string{"ok; rule 0: 0 of 10, reset 2600; refusing [0]"}},
	}},
	{name: "mark: of several sets, all is counted or nothing", steps: []step{
		{0, store.Take, []store.Set{of(marked(count(60, 1))), of(marked(count(60, 1))), of(numbered(2, count(60, 2)))}, []string{"ok; rule 0: 0 of 1, reset 60000", "ok; rule 0: 0 of 1, reset 60000; refusing [0]", "ok; rule 0: 1 of 2, reset 60000"}},
		{1, store.Take, []store.Set{of(marked(count(60, 1))), denying(marked(token(1, 1, 1))), of(weighing(2, numbered(2, count(60, 2))))}, []string{"ok; rule 0: 0 of 1, reset 59999; refusing [0]", "ok; rule 0: 1 of 1, reset 0", "rule 0 refuses; rule 0: 1 of 2, reset 59999, retry 59999"}},
		{2, store.Peek, one(count(60, 1)), []string{"ok; rule 0: 0 of 1, reset 59998; 2 hits"}},
		{2, store.Peek, one(token(1, 1, 1)), []string{"ok; rule 0: 1 of 1, reset 0"}},
	}},
	{name: "mark: an overdraft records whatever the verdict, and a look needs room for 1", steps: []step{
		{0, store.Take, one(weighing(3, overdraft(marked(count(60, 2))))), []string{"ok; rule 0: 0 of 2, reset 60000; refusing [0]"}},
		{1, store.Take, []store.Set{denying(overdraft(marked(count(60, 2))))}, []string{"ok; rule 0: 0 of 2, reset 59999; refusing [0]"}},
		{2, store.Browse, one(weighing(0, overdraft(marked(count(60, 2))))), []string{"ok; rule 0: 0 of 2, reset 59998; refusing [0]"}},
		{3, store.Browse, one(weighing(0, marked(count(60, 4)))), []string{"ok; rule 0: 0 of 4, reset 59997"}},
		{4, store.Peek, one(count(60, 2)), []string{"ok; rule 0: 0 of 2, reset 59996; 4 hits"}},
	}},
	{name: "mark: a complete answer decides by other rules", steps: []step{
		{0, store.CompleteTake, one(weighing(2, marked(count(60, 1))), numbered(2, count(60, 1))), []string{"ok; rule 0: 0 of 1, reset 60000; refusing [0]"}},
		{1, store.Complete, one(marked(count(60, 1)), numbered(2, count(60, 1))), []string{"rule 1 refuses; rule 1: 0 of 1, reset 59999, retry 59999; refusing [0 1]"}},
		{1, store.CompleteTake, one(marked(count(60, 1)), numbered(2, count(60, 1))), []string{"rule 1 refuses; rule 1: 0 of 1, reset 59999, retry 59999; refusing [0 1]"}},
		{2, store.Peek, one(count(60, 1)), []string{"ok; rule 0: 0 of 1, reset 59998; 2 hits"}},
	}},
}

// markedReceipts are the cases of such rules that have a part in a receipt.
var markedReceipts = []receiptCase{
	{"mark: an estimate and a hold that it refused are settled as others", []receiptStep{
		{0, store.Take, "a", one(weighing(4, settling(marked(count(3600, 5)))), marked(numbered(2, hold(60, 1)))), gone, "ok; rule 1: 0 of 1, reset 60000 | receipt"},
		{1, store.Take, "b", one(weighing(4, settling(marked(count(3600, 5)))), marked(numbered(2, hold(60, 1)))), gone, "ok; rule 0: 0 of 5, reset 3599999; refusing [0 1] | receipt"},
		{2, store.Peek, "", one(numbered(2, hold(60, 1))), gone, "ok; rule 0: 0 of 1, reset 59999; 2 hits"},
		{3, settle, "b", nil, used(1), "ok"},
		{4, store.Peek, "", one(numbered(2, hold(60, 1))), gone, "ok; rule 0: 0 of 1, reset 59996; 1 hits"},
		{5, store.Peek, "", one(count(3600, 5)), gone, "ok; rule 0: 0 of 5, reset 3599995; 5 hits"},
		{6, settle, "a", nil, used(7), "ok"},
		{7, store.Peek, "", one(count(3600, 5)), gone, "ok; rule 0: 0 of 5, reset 3599993; 8 hits"},
	}},
	{"mark: an outcome that it refused is charged, and empties a bucket no further", []receiptStep{
		{0, store.Take, "a", one(weighing(2, outcome(marked(token(60, 1, 1))))), gone, "ok; rule 0: 1 of 1, reset 0 | receipt"},
		{1, settle, "a", nil, charged, "ok"},
		{2, store.Take, "b", one(outcome(marked(token(60, 1, 1)))), gone, "ok; rule 0: 0 of 1, reset 59999; refusing [0] | receipt"},
		{3, settle, "b", nil, charged, "ok"},
		{4, store.Peek, "", one(token(60, 1, 1)), gone, "ok; rule 0: 0 of 1, reset 59999; 1 hits"},
	}},
}

// marked returns the rule as one that lets pass what it refuses.
func marked(r store.Rule) store.Rule {
	r.Marked = true
	return r
}
