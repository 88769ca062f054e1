package storetest

import (
	"github.com/koalagate/koalagate/internal/store"
)

const most = 9_000_000_000_000_000 // the largest threshold

// largeNumbers are the cases of the largest thresholds and weights, and of limits of 0.
var largeNumbers = []behavior{
	{name: "large: a count of 9·10^15 is exact to the last hit", steps: []step{
		{0, store.Update, one(weighing(store.MaxWeight, count(60, most))), []string{"ok; rule 0: 8000000000000000 of 9000000000000000, reset 60000"}},
		{1, store.Update, []store.Set{of(weighing(store.MaxWeight, count(60, most))), of(weighing(store.MaxWeight, count(60, most))), of(weighing(store.MaxWeight, count(60, most))), of(weighing(store.MaxWeight, count(60, most)))}, []string{
			"ok; rule 0: 7000000000000000 of 9000000000000000, reset 59999", "ok; rule 0: 6000000000000000 of 9000000000000000, reset 59999",
			"ok; rule 0: 5000000000000000 of 9000000000000000, reset 59999", "ok; rule 0: 4000000000000000 of 9000000000000000, reset 59999",
		}},
		{2, store.Take, []store.Set{of(weighing(store.MaxWeight, count(60, most))), of(weighing(store.MaxWeight, count(60, most))), of(weighing(store.MaxWeight, count(60, most))), of(weighing(store.MaxWeight-1, count(60, most)))}, []string{
			"ok; rule 0: 3000000000000000 of 9000000000000000, reset 59998", "ok; rule 0: 2000000000000000 of 9000000000000000, reset 59998",
			"ok; rule 0: 1000000000000000 of 9000000000000000, reset 59998", "ok; rule 0: 1 of 9000000000000000, reset 59998",
		}},
		{3, store.Take, one(weighing(2, count(60, most))), []string{"rule 0 refuses; rule 0: 1 of 9000000000000000, reset 59997, retry 59997"}},
		{4, store.Take, one(count(60, most)), []string{"ok; rule 0: 0 of 9000000000000000, reset 59996"}},
		{5, store.Take, one(weighing(store.MaxWeight, count(60, most))), []string{"rule 0 refuses; rule 0: 0 of 9000000000000000, reset 59995, retry 59995"}},
		{6, store.Update, one(weighing(store.MaxWeight, count(60, most))), []string{"ok; rule 0: 0 of 9000000000000000, reset 59994"}},
		{7, store.Peek, one(count(60, most)), []string{"ok; rule 0: 0 of 9000000000000000, reset 59993; 9007199254740991 hits"}},
		{8, store.Refund, one(weighing(store.MaxWeight, count(60, most))), []string{"ok; rule 0: 992800745259009 of 9000000000000000, reset 59992"}},
	}},
	{name: "large: a base and a count of 9·10^15 are exact", steps: []step{
		{0, store.Update, one(weighing(store.MaxWeight, base(store.MaxWeight, 60, most))), []string{"ok; rule 0: 8999999999999999 of 9000000000000000, reset 60000"}},
		{1, store.Take, one(weighing(store.MaxWeight, base(store.MaxWeight, 60, most))), []string{"ok; rule 0: 7999999999999999 of 9000000000000000, reset 59999"}},
		{2, store.Peek, one(base(store.MaxWeight, 60, most)), []string{"ok; rule 0: 7999999999999999 of 9000000000000000, reset 59998; 2000000000000000 hits"}},
		{3, store.Take, one(numbered(2, weighing(store.MaxWeight, base(most, 60, 1)))), []string{"ok; rule 0: 8000000000000000 of 9000000000000000 today, reset 43199997"}},
	}},
	{name: "large: a leak count of 9·10^15 is exact", steps: []step{
		{0, store.Take, one(weighing(store.MaxWeight, leak(10, most))), []string{"ok; rule 0: 8000000000000000 of 9000000000000000, reset 10000"}},
		{1, store.Take, one(weighing(store.MaxWeight-1, leak(10, most))), []string{"ok; rule 0: 7000000000000001 of 9000000000000000, reset 10000"}},
		{2, store.Take, one(weighing(store.MaxWeight, leak(10, 2_000_000_000_000_000))), []string{"rule 0 refuses; rule 0: 1 of 2000000000000000, reset 9999, retry 9998"}},
		{3, store.Take, one(leak(10, 2_000_000_000_000_000)), []string{"ok; rule 0: 0 of 2000000000000000, reset 10000"}},
		{10_000, store.Refund, one(weighing(2, leak(10, most))), []string{"ok; rule 0: 8000000000000002 of 9000000000000000, reset 1"}},
	}},
	{name: "large: a burst of 9·10^12 is exact", steps: []step{
		{0, store.Take, one(weighing(9_000_000_000_000, token(1, 1, 9_000_000_000_000))), []string{"ok; rule 0: 0 of 9000000000000, reset 9000000000000000"}},
		{1, store.Take, one(token(1, 1, 9_000_000_000_000)), []string{"rule 0 refuses; rule 0: 0 of 9000000000000, reset 8999999999999999, retry 999"}},
		{1, store.Take, one(token(1, most, 9_000_000_000_000)), []string{"ok; rule 0: 8999999999999 of 9000000000000, reset 1"}},
		{1, store.Refund, one(weighing(store.MaxWeight, token(1, most, 9_000_000_000_000))), []string{"ok; rule 0: 9000000000000 of 9000000000000, reset 0"}},
		{2, store.Update, one(weighing(store.MaxWeight, token(1, 2, 9_000_000_000_000))), []string{"ok; rule 0: 0 of 9000000000000, reset 4500000000000000"}},
	}},
	{name: "limit 0: nothing fits a leak or token rule", steps: []step{
		{0, store.Take, one(leak(60, 0)), []string{"rule 0 refuses; rule 0: 0 of 0, reset 0"}},
		{0, store.Take, one(weighing(0, leak(60, 0))), []string{"ok; rule 0: 0 of 0, reset 0"}},
		{0, store.Take, one(token(60, 0, 0)), []string{"rule 0 refuses; rule 0: 0 of 0, reset 0"}},
		{0, store.Take, one(token(60, 0, 5)), []string{"rule 0 refuses; rule 0: 0 of 0, reset 0"}},
		{0, store.Take, one(token(60, 5, 0)), []string{"rule 0 refuses; rule 0: 0 of 0, reset 0"}},
		{0, store.Take, one(weighing(0, token(60, 0, 0))), []string{"ok; rule 0: 0 of 0, reset 0"}},
		{0, store.Update, one(weighing(9, token(60, 0, 0))), []string{"ok; rule 0: 0 of 0, reset 0"}},
		{0, store.Refund, one(weighing(9, token(60, 0, 0))), []string{"ok; rule 0: 0 of 0, reset 0"}},
		{0, store.Peek, one(token(60, 0, 0)), []string{"ok; rule 0: 0 of 0, reset 0"}},
	}},
	{name: "limit 0: a bucket that another request uses keeps its level", steps: []step{
		{0, store.Take, one(weighing(2, token(60, 3, 3))), []string{"ok; rule 0: 1 of 3, reset 40000"}},
		{10, store.Take, one(weighing(0, token(60, 0, 0))), []string{"ok; rule 0: 0 of 0, reset 0"}},
		{20, store.Take, one(token(60, 4, 4)), []string{"ok; rule 0: 0 of 4, reset 59980"}},
	}},
}
