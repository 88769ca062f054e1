package storetest

import (
	"github.com/koalagate/koalagate/internal/store"
)

var counts = []behavior{
	{name: "count: a window opens with its first hit and closes after time", steps: []step{
		{0, store.Take, one(count(2, 1)), []string{"ok; rule 0: 0 of 1, reset 2000"}},
		{1999, store.Take, one(count(2, 1)), []string{"rule 0 refuses; rule 0: 0 of 1, reset 1, retry 1"}},
		{2000, store.Take, one(count(2, 1)), []string{"ok; rule 0: 0 of 1, reset 2000"}},
	}},
	{name: "count: a weight is admitted whole or refused whole", steps: []step{
		{0, store.Take, one(weighing(3, count(60, 5))), []string{"ok; rule 0: 2 of 5, reset 60000"}},
		{1, store.Take, one(weighing(3, count(60, 5))), []string{"rule 0 refuses; rule 0: 2 of 5, reset 59999, retry 59999"}},
		{2, store.Take, one(weighing(6, count(60, 5))), []string{"rule 0 refuses; rule 0: 2 of 5, reset 59998"}},
		{3, store.Take, one(weighing(store.MaxWeight, count(60, 5))), []string{"rule 0 refuses; rule 0: 2 of 5, reset 59997"}},
		{4, store.Take, one(weighing(2, count(60, 5))), []string{"ok; rule 0: 0 of 5, reset 59996"}},
		{5, store.Take, one(weighing(0, count(60, 5))), []string{"ok; rule 0: 0 of 5, reset 59995"}},
	}},
	{name: "count: a weight of 0 opens no window, a refund closes none", steps: []step{
		{0, store.Take, one(weighing(0, count(60, 3))), []string{"ok; rule 0: 3 of 3, reset 60000"}},
		{1000, store.Take, one(weighing(2, count(60, 3))), []string{"ok; rule 0: 1 of 3, reset 60000"}},
		{2000, store.Refund, one(weighing(5, count(60, 3))), []string{"ok; rule 0: 3 of 3, reset 59000"}},
		{3000, store.Take, one(count(60, 3)), []string{"ok; rule 0: 2 of 3, reset 58000"}},
		{61_000, store.Take, one(weighing(3, count(60, 3))), []string{"ok; rule 0: 0 of 3, reset 60000"}},
	}},
	{name: "count: 86400 is the calendar day", steps: []step{
		{0, store.Take, one(count(store.Day, 2)), []string{"ok; rule 0: 1 of 2, reset 43200000"}},
		{43_199_999, store.Take, one(count(store.Day, 2)), []string{"ok; rule 0: 0 of 2, reset 1"}},
		{43_200_000, store.Take, one(count(store.Day, 2)), []string{"ok; rule 0: 1 of 2, reset 86400000"}},
	}},
	{name: "count: a limit of 0 admits only a weight of 0", steps: []step{
		{0, store.Take, one(count(60, 0)), []string{"rule 0 refuses; rule 0: 0 of 0, reset 60000"}},
		{1, store.Take, one(weighing(0, count(60, 0))), []string{"ok; rule 0: 0 of 0, reset 60000"}},
	}},
	{name: "count: an open window keeps its end when time changes", steps: []step{
		{0, store.Take, one(count(60, 2)), []string{"ok; rule 0: 1 of 2, reset 60000"}},
		{1, store.Take, one(count(10, 2)), []string{"ok; rule 0: 0 of 2, reset 59999"}},
	}},
}

var bases = []behavior{
	{name: "base: free up to base per day, then count per time", steps: []step{
		{0, store.Take, one(base(3, 2, 1)), []string{"ok; rule 0: 2 of 3 today, reset 43200000"}},
		{1, store.Take, one(base(3, 2, 1)), []string{"ok; rule 0: 1 of 3 today, reset 43199999"}},
		{2, store.Take, one(base(3, 2, 1)), []string{"ok; rule 0: 0 of 1, reset 2000"}},
		{3, store.Take, one(base(3, 2, 1)), []string{"rule 0 refuses; rule 0: 0 of 1, reset 1999, retry 1999"}},
		{2002, store.Take, one(base(3, 2, 1)), []string{"ok; rule 0: 0 of 1, reset 2000"}},
		{4003, store.Browse, one(base(3, 2, 1)), []string{"ok; rule 0: 1 of 1, reset 2000"}},
		{43_200_000, store.Take, one(base(3, 2, 1)), []string{"ok; rule 0: 2 of 3 today, reset 86400000"}},
	}},
	{name: "base: a weight counts hit by hit", steps: []step{
		{0, store.Take, one(weighing(4, base(5, 10, 3))), []string{"ok; rule 0: 1 of 5 today, reset 43200000"}},
		{1, store.Take, one(weighing(4, base(5, 10, 3))), []string{"rule 0 refuses; rule 0: 1 of 5 today, reset 43199999"}},
		{2, store.Take, one(weighing(3, base(5, 10, 3))), []string{"ok; rule 0: 0 of 3, reset 10000"}},
		{3, store.Take, one(base(5, 10, 3)), []string{"rule 0 refuses; rule 0: 0 of 3, reset 9999, retry 9999"}},
		{4, store.Take, one(weighing(0, base(5, 10, 3))), []string{"ok; rule 0: 0 of 3, reset 9998"}},
		{5, store.Take, one(weighing(4, base(5, 10, 3))), []string{"rule 0 refuses; rule 0: 0 of 3, reset 9997"}},
	}},
	{name: "base: yesterday's second window still refuses", begin: noon + 39_600_000, steps: []step{
		{0, store.Take, one(weighing(2, base(2, 7200, 2))), []string{"ok; rule 0: 1 of 2, reset 7200000"}},
		{0, store.Take, one(base(2, 7200, 2)), []string{"ok; rule 0: 0 of 2, reset 7200000"}},
		{3_600_000, store.Take, one(weighing(3, base(2, 7200, 2))), []string{"rule 0 refuses; rule 0: 2 of 2 today, reset 86400000, retry 3600000"}},
		{3_600_000, store.Take, one(weighing(4, base(2, 7200, 2))), []string{"rule 0 refuses; rule 0: 2 of 2 today, reset 86400000"}},
		{3_600_000, store.Take, one(weighing(2, base(2, 7200, 2))), []string{"ok; rule 0: 0 of 2, reset 3600000"}},
		{3_600_000, store.Peek, one(base(2, 7200, 2)), []string{"ok; rule 0: 0 of 2, reset 3600000; 2 hits"}},
	}},
	{name: "base: a refund reaches today's hits and the second window", steps: []step{
		{0, store.Update, one(weighing(4, base(2, 60, 9))), []string{"ok; rule 0: 6 of 9, reset 60000"}},
		{1, store.Refund, one(base(2, 60, 9)), []string{"ok; rule 0: 7 of 9, reset 59999"}},
		{2, store.Refund, one(weighing(2, base(2, 60, 9))), []string{"ok; rule 0: 1 of 2 today, reset 43199998"}},
		{3, store.Peek, one(base(2, 60, 9)), []string{"ok; rule 0: 1 of 2 today, reset 43199997; 1 hits"}},
		{4, store.Take, one(weighing(11, base(2, 60, 9))), []string{"rule 0 refuses; rule 0: 1 of 2 today, reset 43199996"}},
		{4, store.Take, one(weighing(9, base(2, 60, 9))), []string{"ok; rule 0: 0 of 9, reset 59996"}},
	}},
	{name: "base: 86400 is seconds for the second window", steps: []step{
		{0, store.Take, one(base(1, store.Day, 2)), []string{"ok; rule 0: 1 of 2, reset 86400000"}},
		{50_000_000, store.Browse, one(base(1, store.Day, 2)), []string{"ok; rule 0: 1 of 1 today, reset 79600000"}},
	}},
	{name: "base: the heaviest weight is exact", steps: []step{
		{0, store.Update, one(weighing(store.MaxWeight, base(1_000_000_000, 60, 1_000_000_000))), []string{"ok; rule 0: 0 of 1000000000, reset 60000"}},
		{1, store.Peek, one(base(1_000_000_000, 60, 1_000_000_000)), []string{"ok; rule 0: 0 of 1000000000, reset 59999; 1000000000000000 hits"}},
	}},
}

var leaks = []behavior{
	{name: "leak: hits leave one by one", steps: []step{
		{0, store.Take, one(leak(10, 2)), []string{"ok; rule 0: 1 of 2, reset 10000"}},
		{9000, store.Take, one(leak(10, 2)), []string{"ok; rule 0: 0 of 2, reset 10000"}},
		{9001, store.Take, one(leak(10, 2)), []string{"rule 0 refuses; rule 0: 0 of 2, reset 9999, retry 999"}},
		{9001, store.Take, one(weighing(2, leak(10, 2))), []string{"rule 0 refuses; rule 0: 0 of 2, reset 9999, retry 9999"}},
		{9001, store.Take, one(weighing(3, leak(10, 2))), []string{"rule 0 refuses; rule 0: 0 of 2, reset 9999"}},
		{10_000, store.Take, one(leak(10, 2)), []string{"ok; rule 0: 0 of 2, reset 10000"}},
		{19_000, store.Browse, one(leak(10, 2)), []string{"ok; rule 0: 1 of 2, reset 1000"}},
		{20_000, store.Browse, one(leak(10, 2)), []string{"ok; rule 0: 2 of 2, reset 0"}},
	}},
	{name: "leak: a refund gives back the newest hits", steps: []step{
		{0, store.Take, one(leak(10, 5)), []string{"ok; rule 0: 4 of 5, reset 10000"}},
		{1000, store.Take, one(weighing(3, leak(10, 5))), []string{"ok; rule 0: 1 of 5, reset 10000"}},
		{2000, store.Take, one(leak(10, 5)), []string{"ok; rule 0: 0 of 5, reset 10000"}},
		{3000, store.Refund, one(weighing(2, leak(10, 5))), []string{"ok; rule 0: 2 of 5, reset 8000"}},
		{3000, store.Take, one(weighing(4, leak(10, 5))), []string{"rule 0 refuses; rule 0: 2 of 5, reset 8000, retry 8000"}},
		{3001, store.Refund, one(weighing(9, leak(10, 5))), []string{"ok; rule 0: 5 of 5, reset 0"}},
		{3002, store.Take, one(weighing(5, leak(10, 5))), []string{"ok; rule 0: 0 of 5, reset 10000"}},
	}},
	{name: "leak: a heavy weight is exact", steps: []step{
		{0, store.Take, one(weighing(400_000_000, leak(10, 1_000_000_000))), []string{"ok; rule 0: 600000000 of 1000000000, reset 10000"}},
		{1000, store.Update, one(weighing(store.MaxWeight, leak(10, 1_000_000_000))), []string{"ok; rule 0: 0 of 1000000000, reset 10000"}},
		{1001, store.Peek, one(leak(10, 1_000_000_000)), []string{"ok; rule 0: 0 of 1000000000, reset 9999; 1000000400000000 hits"}},
		{1002, store.Refund, one(weighing(store.MaxWeight, leak(10, 1_000_000_000))), []string{"ok; rule 0: 600000000 of 1000000000, reset 8998"}},
	}},
	{name: "leak: hits beyond the limit leave one by one too", steps: []step{
		{0, store.Update, one(leak(10, 1)), []string{"ok; rule 0: 0 of 1, reset 10000"}},
		{1000, store.Update, one(weighing(2, leak(10, 1))), []string{"ok; rule 0: 0 of 1, reset 10000"}},
		{2000, store.Update, one(leak(10, 1)), []string{"ok; rule 0: 0 of 1, reset 10000"}},
		{3000, store.Browse, one(leak(10, 1)), []string{"rule 0 refuses; rule 0: 0 of 1, reset 9000, retry 9000"}},
		{11_000, store.Peek, one(leak(10, 1)), []string{"ok; rule 0: 0 of 1, reset 1000; 1 hits"}},
	}},
	{name: "leak: a weight of 0 counts nothing", steps: []step{
		{0, store.Take, one(weighing(0, leak(10, 1))), []string{"ok; rule 0: 1 of 1, reset 0"}},
		{0, store.Update, one(weighing(0, leak(10, 1))), []string{"ok; rule 0: 1 of 1, reset 0"}},
	}},
}

var tokens = []behavior{
	{name: "token: full at first, refilled evenly, rounded up", steps: []step{
		{0, store.Take, one(weighing(5, token(1, 3, 5))), []string{"ok; rule 0: 0 of 5, reset 1667"}},
		{0, store.Take, one(token(1, 3, 5)), []string{"rule 0 refuses; rule 0: 0 of 5, reset 1667, retry 334"}},
		{333, store.Take, one(token(1, 3, 5)), []string{"rule 0 refuses; rule 0: 0 of 5, reset 1334, retry 1"}},
		{334, store.Take, one(token(1, 3, 5)), []string{"ok; rule 0: 0 of 5, reset 1666"}},
		{334, store.Take, one(weighing(6, token(1, 3, 5))), []string{"rule 0 refuses; rule 0: 0 of 5, reset 1666"}},
		{9000, store.Peek, one(token(1, 3, 5)), []string{"ok; rule 0: 5 of 5, reset 0"}},
	}},
	{name: "token: a burst of 1 is a minimum interval", steps: []step{
		{0, store.Take, one(token(7200, 1, 1)), []string{"ok; rule 0: 0 of 1, reset 7200000"}},
		{7_199_999, store.Take, one(token(7200, 1, 1)), []string{"rule 0 refuses; rule 0: 0 of 1, reset 1, retry 1"}},
		{7_200_000, store.Take, one(token(7200, 1, 1)), []string{"ok; rule 0: 0 of 1, reset 7200000"}},
	}},
	{name: "token: update stops at empty, refund at full", steps: []step{
		{0, store.Update, one(weighing(store.MaxWeight, token(10, 1, 3))), []string{"ok; rule 0: 0 of 3, reset 30000"}},
		{5000, store.Refund, one(token(10, 1, 3)), []string{"ok; rule 0: 1 of 3, reset 15000"}},
		{5000, store.Refund, one(weighing(store.MaxWeight, token(10, 1, 3))), []string{"ok; rule 0: 3 of 3, reset 0"}},
	}},
	{name: "token: the largest bucket is exact", steps: []step{
		{0, store.Take, one(weighing(1, token(9_007_199, 1, 1_000_000))), []string{"ok; rule 0: 999999 of 1000000, reset 9007199000"}},
		{1, store.Take, one(weighing(1_000_000, token(9_007_199, 1, 1_000_000))), []string{"rule 0 refuses; rule 0: 999999 of 1000000, reset 9007198999, retry 9007198999"}},
		{2, store.Update, one(weighing(999_999, token(9_007_199, 1, 1_000_000))), []string{"ok; rule 0: 0 of 1000000, reset 9007198999999998"}},
		{3, store.Take, one(token(9_007_199, 1, 1_000_000)), []string{"rule 0 refuses; rule 0: 0 of 1000000, reset 9007198999999997, retry 9007198997"}},
	}},
	{name: "token: a level of the rule's own burst stays when time and count change", steps: []step{
		{0, store.Take, one(weighing(6, token(10, 1, 10))), []string{"ok; rule 0: 4 of 10, reset 60000"}},
		{5000, store.Browse, one(token(1, 1, 10)), []string{"ok; rule 0: 9 of 10, reset 1000"}},
		{0, store.Browse, one(token(5, 2, 10)), []string{"ok; rule 0: 4 of 10, reset 15000"}},
	}},
	{name: "token: the level stays when burst changes, and full stays full", steps: []step{
		{0, store.Take, one(weighing(6, token(10, 1, 10))), []string{"ok; rule 0: 4 of 10, reset 60000"}},
		{0, store.Browse, one(token(1, 1, 20)), []string{"ok; rule 0: 4 of 20, reset 16000"}},
		{0, store.Browse, one(token(10, 1, 5)), []string{"ok; rule 0: 4 of 5, reset 10000"}},
		{0, store.Browse, one(token(10, 1, 2)), []string{"ok; rule 0: 2 of 2, reset 0"}},
		{10_000, store.Take, one(token(10, 2, 20)), []string{"ok; rule 0: 5 of 20, reset 75000"}},
		{10_000, store.Take, one(token(10, 1, 3)), []string{"ok; rule 0: 2 of 3, reset 10000"}},
		{20_000, store.Browse, one(token(10, 1, 9)), []string{"ok; rule 0: 9 of 9, reset 0"}},
	}},
}

// clocks are the cases of clocks that step back, and of unusual days.
var clocks = []behavior{
	{name: "clock: back by a minute, count", steps: []step{
		{100_000, store.Take, one(count(60, 1)), []string{"ok; rule 0: 0 of 1, reset 60000"}},
		{40_000, store.Take, one(count(60, 1)), []string{"rule 0 refuses; rule 0: 0 of 1, reset 120000, retry 120000"}},
		{160_000, store.Take, one(count(60, 1)), []string{"ok; rule 0: 0 of 1, reset 60000"}},
	}},
	{name: "clock: back over midnight, base", begin: noon + 43_200_000, steps: []step{
		{0, store.Take, one(base(2, 60, 1)), []string{"ok; rule 0: 1 of 2 today, reset 86400000"}},
		{-1000, store.Take, one(base(2, 60, 1)), []string{"ok; rule 0: 0 of 1, reset 60000"}},
		{0, store.Take, one(base(2, 60, 1)), []string{"rule 0 refuses; rule 0: 0 of 1, reset 59000, retry 59000"}},
	}},
	{name: "clock: back by a minute, leak", steps: []step{
		{100_000, store.Take, one(leak(60, 2)), []string{"ok; rule 0: 1 of 2, reset 60000"}},
		{40_000, store.Take, one(leak(60, 2)), []string{"ok; rule 0: 0 of 2, reset 120000"}},
		{100_001, store.Take, one(leak(60, 2)), []string{"rule 0 refuses; rule 0: 0 of 2, reset 59999, retry 59999"}},
		{160_000, store.Take, one(weighing(2, leak(60, 2))), []string{"ok; rule 0: 0 of 2, reset 60000"}},
	}},
	{name: "clock: back by a minute, token", steps: []step{
		{100_000, store.Take, one(token(60, 3, 3)), []string{"ok; rule 0: 2 of 3, reset 20000"}},
		{40_000, store.Take, one(token(60, 3, 3)), []string{"ok; rule 0: 1 of 3, reset 40000"}},
		{100_000, store.Take, one(token(60, 3, 3)), []string{"ok; rule 0: 0 of 3, reset 60000"}},
		{119_999, store.Take, one(token(60, 3, 3)), []string{"rule 0 refuses; rule 0: 0 of 3, reset 40001, retry 1"}},
	}},
	{name: "clock: a day of 25 hours", zone: "America/New_York", begin: 1_793_505_600_000, steps: []step{
		{0, store.Take, one(count(store.Day, 1)), []string{"ok; rule 0: 0 of 1, reset 90000000"}},
		{90_000_000, store.Take, one(count(store.Day, 1)), []string{"ok; rule 0: 0 of 1, reset 86400000"}},
	}},
	{name: "clock: a missing midnight", zone: "America/Sao_Paulo", begin: 1_541_286_000_000, steps: []step{
		{0, store.Take, one(count(store.Day, 1)), []string{"ok; rule 0: 0 of 1, reset 14400000"}},
		{14_400_000, store.Take, one(count(store.Day, 1)), []string{"ok; rule 0: 0 of 1, reset 82800000"}},
	}},
	{name: "clock: a midnight that occurs twice", zone: "America/Havana", begin: 1_793_491_200_000, steps: []step{
		{0, store.Take, one(count(store.Day, 1)), []string{"ok; rule 0: 0 of 1, reset 14400000"}},
		{14_400_000, store.Take, one(count(store.Day, 1)), []string{"ok; rule 0: 0 of 1, reset 90000000"}},
	}},
}
