// Package method describes the counting methods: what their counters are, and which words
// of the rule language they have. The parser, the checks, the stores and the explanations
// ask a method's description, so that a method is described once.
package method

import "fmt"

// Number is the number of a method. Redis keeps the numbers in three bits of each counter,
// so they never change.
type Number uint8

// The methods.
const (
	Direct Number = iota // decides as soon as it matches, counts nothing
	Count                // a window that its first hit opens, or the calendar day
	Base                 // free hits per day, then a window
	Leak                 // exact sliding window
	Token                // token bucket
	Hold                 // weight that is held at the same time
)

// Numbers is above the numbers of all methods.
const Numbers = 8

// Method describes a counting method. Each field is a fact about its counters or a word
// of its rules; the zero value describes a method that counts nothing.
type Method struct {
	Name   string // the word in rule files
	Counts bool   // it has counters

	Windows   bool // its windows may be units of the calendar, or begin at multiples of their time
	FirstFree bool // hits of a day are free before the limit applies
	Refills   bool // its counters are buckets: a burst, and a level that grows all the time
	Slides    bool // it counts each hit until the hit is older than the time, and can forget single hits
	Holds     bool // its counters hold a weight until a settlement or for a time; nothing else gives it back
	Logged    bool // its counters have a key of their own in Redis, beside the value of the subject

	Settles  bool // it has the words overdraft, settle and used, and outcomes
	Bans     bool // it has the word ban
	Waits    bool // it has the word wait
	Leases   bool // it has the word lease: instances may hold parts of its limits in advance
	Replaces bool // an exception can replace its count

	// Limit returns the limit in words. window is the text for its time.
	Limit func(count, base, burst int64, window string) string
}

// all are the methods by their numbers.
var all = [Numbers]Method{
	Direct: {Name: "direct", Limit: func(_, _, _ int64, _ string) string { return "direct" }},
	Count: {
		Name: "count", Counts: true, Windows: true, Settles: true, Bans: true, Leases: true, Replaces: true,
		Limit: func(count, _, _ int64, window string) string {
			return fmt.Sprintf("at most %d in %s", count, window)
		},
	},
	Base: {
		Name: "base", Counts: true, FirstFree: true,
		Limit: func(count, base, _ int64, window string) string {
			return fmt.Sprintf("%d free per day, then at most %d in %s", base, count, window)
		},
	},
	Leak: {
		Name: "leak", Counts: true, Slides: true, Logged: true, Settles: true, Bans: true, Replaces: true,
		Limit: func(count, _, _ int64, window string) string {
			return fmt.Sprintf("at most %d in any %s", count, window)
		},
	},
	Token: {
		Name: "token", Counts: true, Refills: true, Settles: true, Waits: true, Leases: true, Replaces: true,
		Limit: func(count, _, burst int64, window string) string {
			return fmt.Sprintf("a bucket of %d, refilled with %d in %s", burst, count, window)
		},
	},
	Hold: {
		Name: "hold", Counts: true, Holds: true, Logged: true, Replaces: true,
		Limit: func(count, _, _ int64, window string) string {
			return fmt.Sprintf("at most %d at the same time, for %s", count, window)
		},
	},
}

// Of returns the description of the method with this number, as Number or as a type of
// another package with equal numbers. An unknown method has the description of one that
// counts nothing, without a name.
func Of[M ~uint8](m M) *Method {
	if m < Numbers {
		return &all[m]
	}
	return &unknown
}

var unknown Method

// Named returns the number of the method with this word, and reports whether there is one.
func Named(word string) (n Number, known bool) {
	for i := range all {
		if all[i].Name == word && word != "" {
			return Number(i), true
		}
	}
	return 0, false
}

// Names returns the words of the methods, in the order of their numbers.
func Names() []string {
	var names []string
	for i := range all {
		if all[i].Name != "" {
			names = append(names, all[i].Name)
		}
	}
	return names
}
