package storetest

import "github.com/koalagate/koalagate/internal/store"

// operations are the cases of plans with one set.
var operations = []behavior{
	{name: "take counts what it admits and nothing else", steps: []step{
		{0, store.Take, one(count(60, 2)), []string{"ok; rule 0: 1 of 2, reset 60000"}},
		{1, store.Take, one(count(60, 2)), []string{"ok; rule 0: 0 of 2, reset 59999"}},
		{2, store.Take, one(count(60, 2)), []string{"rule 0 refuses; rule 0: 0 of 2, reset 59998, retry 59998"}},
		{3, store.Take, one(count(60, 3)), []string{"ok; rule 0: 0 of 3, reset 59997"}},
	}},
	{name: "browse counts nothing", steps: []step{
		{0, store.Browse, one(count(60, 1)), []string{"ok; rule 0: 1 of 1, reset 60000"}},
		{0, store.Browse, one(weighing(2, count(60, 1))), []string{"rule 0 refuses; rule 0: 1 of 1, reset 60000"}},
		{1, store.Take, one(count(60, 1)), []string{"ok; rule 0: 0 of 1, reset 60000"}},
	}},
	{name: "a refused take counts nowhere", steps: []step{
		{0, store.Take, one(count(60, 9), numbered(2, count(60, 1))), []string{"ok; rule 1: 0 of 1, reset 60000"}},
		{1, store.Take, one(count(60, 9), numbered(2, count(60, 1))), []string{"rule 1 refuses; rule 1: 0 of 1, reset 59999, retry 59999"}},
		{2, store.Browse, one(count(60, 9)), []string{"ok; rule 0: 8 of 9, reset 59998"}},
	}},
	{name: "rules below the decider are not read", steps: []step{
		{0, store.Update, one(count(60, 1), numbered(2, count(60, 1))), []string{"ok; rule 0: 0 of 1, reset 60000"}},
		{1, store.Browse, one(count(60, 1), shadow(numbered(2, count(60, 1)))), []string{"rule 0 refuses; rule 0: 0 of 1, reset 59999, retry 59999"}},
	}},
	{name: "a decider that allows counts the rules above it", steps: []step{
		{0, store.Take, one(count(60, 9), allowing(numbered(2, count(60, 1)))), []string{"ok; rule 1: 0 of 1, reset 60000"}},
		{1, store.Take, one(count(60, 9), allowing(numbered(2, count(60, 1))), numbered(3, count(60, 9))), []string{"rule 1 refuses; rule 1: 0 of 1, reset 59999, retry 59999"}},
		{2, store.Browse, one(count(60, 9)), []string{"ok; rule 0: 7 of 9, reset 59998"}},
		{2, store.Browse, one(numbered(3, count(60, 9))), []string{"ok; rule 0: 9 of 9, reset 60000"}},
	}},
	{name: "a set that denies without a decider counts nothing", steps: []step{
		{0, store.Take, []store.Set{denying(count(60, 9))}, []string{"ok; rule 0: 9 of 9, reset 60000"}},
		{0, store.Take, []store.Set{denying()}, []string{"ok"}},
		{1, store.Browse, one(count(60, 9)), []string{"ok; rule 0: 9 of 9, reset 60000"}},
	}},
	{name: "a shadow rule is counted and reported, never deciding", steps: []step{
		{0, store.Take, one(shadow(count(60, 1)), numbered(2, count(60, 2))), []string{"ok; rule 1: 1 of 2, reset 60000"}},
		{1, store.Take, one(shadow(count(60, 1)), numbered(2, count(60, 2))), []string{"ok; rule 1: 0 of 2, reset 59999; refusing [0]"}},
		{2, store.Take, one(shadow(count(60, 1)), numbered(2, count(60, 2))), []string{"rule 1 refuses; rule 1: 0 of 2, reset 59998, retry 59998; refusing [0]"}},
		{3, store.Peek, one(shadow(count(60, 1))), []string{"ok; rule 0: 0 of 1, reset 59997; 1 hits"}},
		{4, store.Take, one(shadow(count(60, 1))), []string{"ok; refusing [0]"}},
	}},
	{name: "the first of equal remainders is reported", steps: []step{
		{0, store.Take, one(count(60, 5), numbered(2, count(30, 5)), numbered(3, count(20, 6))), []string{"ok; rule 0: 4 of 5, reset 60000"}},
		{0, store.Take, one(count(60, 5), weighing(2, numbered(2, count(30, 5)))), []string{"ok; rule 1: 2 of 5, reset 30000"}},
	}},
	{name: "update counts regardless of limits", steps: []step{
		{0, store.Update, one(weighing(7, count(60, 2)), shadow(numbered(2, count(60, 1)))), []string{"ok; rule 0: 0 of 2, reset 60000"}},
		{1, store.Peek, one(count(60, 2)), []string{"ok; rule 0: 0 of 2, reset 59999; 7 hits"}},
		{1, store.Peek, one(numbered(2, count(60, 2))), []string{"ok; rule 0: 1 of 2, reset 59999; 1 hits"}},
	}},
	{name: "refund gives back, never below zero", steps: []step{
		{0, store.Refund, one(count(60, 2)), []string{"ok; rule 0: 2 of 2, reset 60000"}},
		{1, store.Take, one(weighing(2, count(60, 2))), []string{"ok; rule 0: 0 of 2, reset 60000"}},
		{2, store.Refund, one(count(60, 2)), []string{"ok; rule 0: 1 of 2, reset 59999"}},
		{3, store.Refund, one(weighing(9, count(60, 2))), []string{"ok; rule 0: 2 of 2, reset 59998"}},
		{4, store.Take, one(count(60, 2)), []string{"ok; rule 0: 1 of 2, reset 59997"}},
	}},
	{name: "complete reports every rule that refuses", steps: []step{
		{0, store.Update, one(count(60, 1), shadow(numbered(2, count(60, 1))), numbered(4, count(30, 1))), []string{"ok; rule 0: 0 of 1, reset 60000"}},
		{
			1, store.Complete, one(count(60, 1), shadow(numbered(2, count(60, 1))), numbered(3, count(60, 1)), numbered(4, count(30, 1))),
			[]string{"rule 0 refuses; rule 0: 0 of 1, reset 59999, retry 59999; refusing [0 1 3]"},
		},
		{2, store.Complete, one(numbered(3, count(60, 1))), []string{"ok; rule 0: 1 of 1, reset 60000"}},
	}},
	{name: "complete-take counts if only shadow rules refuse", steps: []step{
		{0, store.CompleteTake, one(count(60, 2), numbered(2, count(60, 1))), []string{"ok; rule 1: 0 of 1, reset 60000"}},
		{1, store.CompleteTake, one(count(60, 2), numbered(2, count(60, 1))), []string{"rule 1 refuses; rule 1: 0 of 1, reset 59999, retry 59999; refusing [1]"}},
		{2, store.CompleteTake, one(count(60, 2), allowing(numbered(2, count(60, 1)))), []string{"rule 1 refuses; rule 1: 0 of 1, reset 59998, retry 59998; refusing [1]"}},
		{3, store.CompleteTake, one(count(60, 2), shadow(numbered(2, count(60, 1)))), []string{"ok; rule 0: 0 of 2, reset 59997; refusing [1]"}},
	}},
	{name: "peek and reset are about one counter", steps: []step{
		{0, store.Take, one(weighing(2, count(60, 5)), numbered(2, count(60, 5))), []string{"ok; rule 0: 3 of 5, reset 60000"}},
		{1, store.Peek, one(count(60, 5)), []string{"ok; rule 0: 3 of 5, reset 59999; 2 hits"}},
		{2, store.Reset, one(count(60, 5)), []string{"ok; rule 0: 5 of 5, reset 60000"}},
		{3, store.Peek, one(count(60, 5)), []string{"ok; rule 0: 5 of 5, reset 60000"}},
		{4, store.Peek, one(numbered(2, count(60, 5))), []string{"ok; rule 0: 4 of 5, reset 59996; 1 hits"}},
		{5, store.Reset, one(numbered(2, count(60, 5))), []string{"ok; rule 0: 5 of 5, reset 60000"}},
		{6, store.Reset, one(numbered(2, count(60, 5))), []string{"ok; rule 0: 5 of 5, reset 60000"}},
	}},
	{name: "a lowered count holds at once", steps: []step{
		{0, store.Take, one(weighing(4, count(60, 5))), []string{"ok; rule 0: 1 of 5, reset 60000"}},
		{1, store.Take, one(weighing(0, count(60, 3))), []string{"rule 0 refuses; rule 0: 0 of 3, reset 59999, retry 59999"}},
		{2, store.Take, one(count(60, 5)), []string{"ok; rule 0: 0 of 5, reset 59998"}},
	}},
	{name: "a changed method has a counter of its own", steps: []step{
		{0, store.Take, one(count(60, 1)), []string{"ok; rule 0: 0 of 1, reset 60000"}},
		{1, store.Take, one(leak(60, 1)), []string{"ok; rule 0: 0 of 1, reset 60000"}},
		{2, store.Take, one(token(60, 1, 1)), []string{"ok; rule 0: 0 of 1, reset 60000"}},
		{3, store.Take, one(base(2, 60, 1)), []string{"ok; rule 0: 1 of 2 today, reset 43199997"}},
		{4, store.Take, one(count(60, 1)), []string{"rule 0 refuses; rule 0: 0 of 1, reset 59996, retry 59996"}},
		{5, store.Take, one(leak(60, 1)), []string{"rule 0 refuses; rule 0: 0 of 1, reset 59996, retry 59996"}},
	}},
}

// sets are the cases of plans with several sets.
var sets = []behavior{
	{name: "a plan without sets or rules is answered", steps: []step{
		{0, store.Take, nil, []string{}},
		{0, store.Take, []store.Set{of(), of()}, []string{"ok", "ok"}},
	}},
	{name: "one set refuses and none is counted", steps: []step{
		{0, store.Take, []store.Set{of(count(60, 9)), of(numbered(2, count(60, 1)))}, []string{"ok; rule 0: 8 of 9, reset 60000", "ok; rule 0: 0 of 1, reset 60000"}},
		{1, store.Take, []store.Set{of(count(60, 9)), of(numbered(2, count(60, 1)))}, []string{"ok; rule 0: 8 of 9, reset 59999", "rule 0 refuses; rule 0: 0 of 1, reset 59999, retry 59999"}},
		{2, store.Take, []store.Set{of(numbered(2, count(60, 1))), of(count(60, 9))}, []string{"rule 0 refuses; rule 0: 0 of 1, reset 59998, retry 59998", "ok; rule 0: 8 of 9, reset 59998"}},
		{3, store.Take, []store.Set{of(count(60, 9)), denying()}, []string{"ok; rule 0: 8 of 9, reset 59997", "ok"}},
		{4, store.Browse, one(count(60, 9)), []string{"ok; rule 0: 8 of 9, reset 59996"}},
	}},
	{name: "a later set sees the hits of an earlier one", steps: []step{
		{0, store.Take, []store.Set{of(count(60, 1)), of(count(60, 1))}, []string{"ok; rule 0: 1 of 1, reset 60000", "rule 0 refuses; rule 0: 0 of 1, reset 60000, retry 60000"}},
		{1, store.Take, []store.Set{of(count(60, 2)), of(count(60, 2))}, []string{"ok; rule 0: 1 of 2, reset 60000", "ok; rule 0: 0 of 2, reset 60000"}},
	}},
	{name: "browse decides each set by itself", steps: []step{
		{0, store.Browse, []store.Set{of(count(60, 1)), of(count(60, 1))}, []string{"ok; rule 0: 1 of 1, reset 60000", "ok; rule 0: 1 of 1, reset 60000"}},
	}},
	{name: "update counts every set", steps: []step{
		{0, store.Update, []store.Set{of(count(60, 1)), of(count(60, 1))}, []string{"ok; rule 0: 0 of 1, reset 60000", "ok; rule 0: 0 of 1, reset 60000"}},
		{1, store.Peek, one(count(60, 1)), []string{"ok; rule 0: 0 of 1, reset 59999; 2 hits"}},
	}},
	{name: "a refused plan is undone for every method", steps: []step{
		{0, store.Take, one(count(60, 9), base(5, 60, 9), leak(60, 9), token(60, 9, 9)), []string{"ok; rule 1: 4 of 5 today, reset 43200000"}},
		{
			1, store.Take,
			[]store.Set{of(weighing(4, count(60, 9)), weighing(4, base(5, 60, 9)), weighing(4, leak(60, 9)), weighing(4, token(60, 9, 9))), refunding(leak(60, 9)), denying()},
			[]string{"ok; rule 1: 4 of 5 today, reset 43199999", "ok; rule 0: 8 of 9, reset 59999", "ok"},
		},
		{2, store.Browse, one(count(60, 9)), []string{"ok; rule 0: 8 of 9, reset 59998"}},
		{2, store.Browse, one(base(5, 60, 9)), []string{"ok; rule 0: 4 of 5 today, reset 43199998"}},
		{2, store.Browse, one(leak(60, 9)), []string{"ok; rule 0: 8 of 9, reset 59998"}},
		{2, store.Browse, one(token(60, 9, 9)), []string{"ok; rule 0: 8 of 9, reset 6665"}},
	}},
	{name: "an undone take leaves no instant behind", steps: []step{
		{10_000, store.Take, []store.Set{of(token(60, 1, 1)), denying()}, []string{"ok; rule 0: 1 of 1, reset 0", "ok"}},
		{10_000, store.Refund, one(token(60, 1, 1)), []string{"ok; rule 0: 1 of 1, reset 0"}},
		{0, store.Take, one(token(60, 1, 1)), []string{"ok; rule 0: 0 of 1, reset 60000"}},
		{1000, store.Browse, one(weighing(0, token(60, 1, 1))), []string{"ok; rule 0: 0 of 1, reset 59000"}},
	}},
	{name: "a refund is carried out if no other set is refused", steps: []step{
		{0, store.Take, one(weighing(2, count(60, 2)), numbered(2, count(60, 1))), []string{"ok; rule 0: 0 of 2, reset 60000"}},
		{1, store.Take, []store.Set{refunding(count(60, 2)), of(numbered(2, count(60, 1)))}, []string{"ok; rule 0: 0 of 2, reset 59999", "rule 0 refuses; rule 0: 0 of 1, reset 59999, retry 59999"}},
		{2, store.Take, []store.Set{refunding(count(60, 2)), of(numbered(3, count(60, 1)))}, []string{"ok; rule 0: 1 of 2, reset 59998", "ok; rule 0: 0 of 1, reset 60000"}},
		{3, store.Peek, one(count(60, 2)), []string{"ok; rule 0: 1 of 2, reset 59997; 1 hits"}},
	}},
	{name: "a set that only a refund admitted is refused once all is undone", steps: []step{
		{0, store.Take, one(count(60, 1), numbered(2, count(60, 1))), []string{"ok; rule 0: 0 of 1, reset 60000"}},
		{
			1, store.Take,
			[]store.Set{refunding(count(60, 1)), of(count(60, 1)), of(numbered(2, count(60, 1)))},
			[]string{"ok; rule 0: 0 of 1, reset 59999", "rule 0 refuses; rule 0: 0 of 1, reset 59999, retry 59999", "rule 0 refuses; rule 0: 0 of 1, reset 59999, retry 59999"},
		},
	}},
	{name: "a decider that allows hides no rule above it that another set uses up", steps: []step{
		{0, store.Take, one(about("v", count(60, 1))), []string{"ok; rule 0: 0 of 1, reset 60000"}},
		{
			1, store.Take,
			[]store.Set{of(weighing(9, count(60, 9))), of(count(60, 9), allowing(about("v", count(60, 1))))},
			[]string{"ok; rule 0: 9 of 9, reset 60000", "rule 0 refuses; rule 0: 0 of 9, reset 60000, retry 60000"},
		},
		{2, store.Browse, one(count(60, 9)), []string{"ok; rule 0: 9 of 9, reset 60000"}},
	}},
	{name: "a rule that allows, used up by another set, decides its set and counts the rules above it", steps: []step{
		{
			0, store.Take,
			[]store.Set{of(weighing(4, count(60, 5)), about("x", count(60, 9))), of(about("v", count(60, 9)), weighing(3, allowing(count(60, 5))), about("w", count(60, 9)))},
			[]string{"ok; rule 0: 1 of 5, reset 60000", "rule 1 refuses; rule 1: 1 of 5, reset 60000, retry 60000"},
		},
		{1, store.Peek, one(count(60, 5)), []string{"ok; rule 0: 1 of 5, reset 59999; 4 hits"}},
		{1, store.Peek, one(about("x", count(60, 9))), []string{"ok; rule 0: 8 of 9, reset 59999; 1 hits"}},
		{1, store.Peek, one(about("v", count(60, 9))), []string{"ok; rule 0: 8 of 9, reset 59999; 1 hits"}},
		{1, store.Peek, one(about("w", count(60, 9))), []string{"ok; rule 0: 9 of 9, reset 60000"}},
	}},
	{name: "complete-take of several sets counts all or none", steps: []step{
		{0, store.CompleteTake, []store.Set{of(count(60, 9)), of(numbered(2, count(60, 1)))}, []string{"ok; rule 0: 8 of 9, reset 60000", "ok; rule 0: 0 of 1, reset 60000"}},
		{1, store.CompleteTake, []store.Set{of(count(60, 9)), of(numbered(2, count(60, 1)))}, []string{"ok; rule 0: 8 of 9, reset 59999", "rule 0 refuses; rule 0: 0 of 1, reset 59999, retry 59999; refusing [0]"}},
		{2, store.Browse, one(count(60, 9)), []string{"ok; rule 0: 8 of 9, reset 59998"}},
	}},
}
