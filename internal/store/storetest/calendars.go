package storetest

import (
	"github.com/koalagate/koalagate/internal/store"
)

// calendars are the cases of count rules with calendar units, and of windows since the
// epoch.
var calendars = []behavior{
	{name: "unit: a minute and an hour end with the clock's", begin: noon + 59_000, steps: []step{
		{0, store.Take, one(every(store.Minute, 0, 2)), []string{"ok; rule 0: 1 of 2, reset 1000"}},
		{999, store.Take, one(every(store.Minute, 0, 2)), []string{"ok; rule 0: 0 of 2, reset 1"}},
		{999, store.Take, one(every(store.Minute, 0, 2)), []string{"rule 0 refuses; rule 0: 0 of 2, reset 1, retry 1"}},
		{1000, store.Take, one(every(store.Minute, 0, 2)), []string{"ok; rule 0: 1 of 2, reset 60000"}},
		{1000, store.Browse, one(numbered(2, every(store.Hour, 0, 2))), []string{"ok; rule 0: 2 of 2, reset 3540000"}},
	}},
	{name: "unit: the date is what 86400 is", steps: []step{
		{0, store.Take, one(every(store.Date, 0, 2)), []string{"ok; rule 0: 1 of 2, reset 43200000"}},
		{1, store.Take, one(count(store.Day, 2)), []string{"ok; rule 0: 0 of 2, reset 43199999"}},
		{43_200_000, store.Take, one(every(store.Date, 0, 2)), []string{"ok; rule 0: 1 of 2, reset 86400000"}},
	}},
	{name: "unit: an hour that comes twice is one window", zone: "America/New_York", begin: 1_793_507_400_000, steps: []step{
		{0, store.Take, one(every(store.Hour, 0, 1)), []string{"ok; rule 0: 0 of 1, reset 1800000"}},
		{1_800_000, store.Take, one(every(store.Hour, 0, 1)), []string{"ok; rule 0: 0 of 1, reset 7200000"}},
		{8_999_999, store.Take, one(every(store.Hour, 0, 1)), []string{"rule 0 refuses; rule 0: 0 of 1, reset 1, retry 1"}},
		{9_000_000, store.Take, one(every(store.Hour, 0, 1)), []string{"ok; rule 0: 0 of 1, reset 3600000"}},
	}},
	{name: "unit: a week begins on Monday, or on its day", steps: []step{ // on a Monday at noon
		{0, store.Take, one(every(store.Week, 0, 1)), []string{"ok; rule 0: 0 of 1, reset 561600000"}},
		{0, store.Browse, one(numbered(2, every(store.Week, 1, 1))), []string{"ok; rule 0: 1 of 1, reset 561600000"}},
		{0, store.Browse, one(numbered(2, every(store.Week, 2, 1))), []string{"ok; rule 0: 1 of 1, reset 43200000"}},
		{0, store.Browse, one(numbered(2, every(store.Week, 7, 1))), []string{"ok; rule 0: 1 of 1, reset 475200000"}},
		{561_599_999, store.Take, one(every(store.Week, 0, 1)), []string{"rule 0 refuses; rule 0: 0 of 1, reset 1, retry 1"}},
		{561_600_000, store.Take, one(every(store.Week, 0, 1)), []string{"ok; rule 0: 0 of 1, reset 604800000"}},
	}},
	{name: "unit: a month begins on its day, or on the last of a shorter one", zone: "UTC", begin: 1_769_774_400_000, steps: []step{ // 30 January, noon
		{0, store.Browse, one(every(store.Month, 0, 1)), []string{"ok; rule 0: 1 of 1, reset 129600000"}},
		{0, store.Browse, one(every(store.Month, 15, 1)), []string{"ok; rule 0: 1 of 1, reset 1339200000"}},
		{0, store.Take, one(every(store.Month, 31, 1)), []string{"ok; rule 0: 0 of 1, reset 43200000"}},
		{43_200_000, store.Take, one(every(store.Month, 31, 1)), []string{"ok; rule 0: 0 of 1, reset 2419200000"}},
		{2_462_399_999, store.Take, one(every(store.Month, 31, 1)), []string{"rule 0 refuses; rule 0: 0 of 1, reset 1, retry 1"}},
		{2_462_400_000, store.Take, one(every(store.Month, 31, 1)), []string{"ok; rule 0: 0 of 1, reset 2678400000"}},
	}},
	{name: "unit: a year ends with the zone's", begin: 1_798_603_200_000, steps: []step{ // 30 December, noon
		{0, store.Take, one(every(store.Year, 0, 1)), []string{"ok; rule 0: 0 of 1, reset 129600000"}},
		{129_600_000, store.Take, one(every(store.Year, 0, 1)), []string{"ok; rule 0: 0 of 1, reset 31536000000"}},
	}},
	{name: "unit: windows since the epoch begin at whole multiples", begin: noon + 1, steps: []step{
		{0, store.Take, one(sinceEpoch(7, 1)), []string{"ok; rule 0: 0 of 1, reset 2999"}},
		{2998, store.Take, one(sinceEpoch(7, 1)), []string{"rule 0 refuses; rule 0: 0 of 1, reset 1, retry 1"}},
		{2999, store.Take, one(sinceEpoch(7, 1)), []string{"ok; rule 0: 0 of 1, reset 7000"}},
		{0, store.Browse, one(numbered(2, sinceEpoch(store.Day, 1))), []string{"ok; rule 0: 1 of 1, reset 71999999"}}, // 04:00 in UTC
	}},
	{name: "unit: an open window keeps its end when the unit changes", steps: []step{
		{0, store.Take, one(every(store.Hour, 0, 2)), []string{"ok; rule 0: 1 of 2, reset 3600000"}},
		{1, store.Take, one(every(store.Year, 0, 2)), []string{"ok; rule 0: 0 of 2, reset 3599999"}},
		{2, store.Refund, one(every(store.Minute, 0, 2)), []string{"ok; rule 0: 1 of 2, reset 3599998"}},
	}},
	{name: "clock: back over a month's end", zone: "UTC", begin: 1_769_904_000_000, steps: []step{ // 1 February
		{0, store.Take, one(every(store.Month, 0, 2)), []string{"ok; rule 0: 1 of 2, reset 2419200000"}},
		{-1000, store.Take, one(every(store.Month, 0, 2)), []string{"ok; rule 0: 0 of 2, reset 2419201000"}},
		{-1000, store.Take, one(every(store.Month, 0, 2)), []string{"rule 0 refuses; rule 0: 0 of 2, reset 2419201000, retry 2419201000"}},
		{0, store.Take, one(every(store.Month, 0, 2)), []string{"rule 0 refuses; rule 0: 0 of 2, reset 2419200000, retry 2419200000"}},
	}},
	{name: "a refused plan is undone for calendar units", steps: []step{
		{0, store.Take, []store.Set{of(every(store.Hour, 0, 9), numbered(2, sinceEpoch(7, 9))), denying()}, []string{"ok; rule 0: 9 of 9, reset 3600000", "ok"}},
		{1_800_000, store.Take, one(every(store.Hour, 0, 9)), []string{"ok; rule 0: 8 of 9, reset 1800000"}},
	}},
}
