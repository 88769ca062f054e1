// Package store keeps the counters. It is handed plans and knows no rule
// files: a plan names the counters a request touches and their thresholds,
// and Evaluate decides and counts them in one atomic step.
package store

import (
	"context"
	"time"
)

// Method is the way in which a counter counts. The numbers are part of the
// layout in Redis and never change.
type Method uint8

// The counting methods.
const (
	Count Method = 1 // a window that its first hit opens, or the calendar day
	Base  Method = 2 // some hits of the day free, then a window
	Leak  Method = 3 // exact sliding window
	Token Method = 4 // token bucket
)

// Op is what a plan asks for.
type Op uint8

// The operations. Take, Browse and Complete walk a set's rules in order.
const (
	Take         Op = 1 // decide, and count everything if every set allows
	Browse       Op = 2 // decide, count nothing
	Update       Op = 3 // count on every rule, whatever the limits
	Refund       Op = 4 // give back on every rule
	Complete     Op = 5 // every rule that would refuse, count nothing
	CompleteTake Op = 6 // the same, and count everything if none refuses
	Peek         Op = 7 // the state of one rule for one subject
	Reset        Op = 8 // forget the state of one rule for one subject
)

// Day is the Time that makes a Count window the calendar day, in seconds.
const Day = 86400

// MaxWeight bounds a weight; Evaluate's callers refuse more.
const MaxWeight = 1 << 31

// MaxCounter is where counters saturate: what a double, and so Redis's Lua,
// holds exactly.
const MaxCounter = 1<<53 - 1

// Plan is one atomic step over several parameter sets.
//
// The sets of a Take are decided in order, each seeing what those before it
// would count. If all of them allow, all is counted. If one refuses, nothing
// is: each refused set reports what it saw, and every other one what a Browse
// of its own answers once all is undone.
type Plan struct {
	Op   Op
	Now  int64          // ms since the epoch; 0: the store's own clock
	Zone *time.Location // of the calendar days; never nil
	Sets []Set

	standsIn bool // it is carried out in place of Redis
}

// Set is one parameter set of a plan: the counting rules that it meets, in
// order, up to the rule that decides without counting.
type Set struct {
	// Refund makes this set of a Take give its weights back, if no other set
	// is refused. It never refuses.
	Refund bool
	// Allows tells whether the set's answer allows where none of its rules
	// decides: what an entry of [result] or a direct rule says.
	Allows bool
	Rules  []Rule
}

// Rule is one counter of a set with its thresholds.
type Rule struct {
	Subject []byte // what is counted: any bytes; equal bytes are one subject
	Return  int64  // the rule's number; with Subject and Method it names the counter; 0 … 2 147 483 647
	Weight  int64  // 0 … MaxWeight
	Time    int64  // seconds
	Count   int64
	Base    int64 // Base only
	Burst   int64 // Token only
	Method  Method
	Shadow  bool // never decides; counted like the others
	// Lenient rules do not decide while another store stands in for Redis;
	// they are still counted.
	Lenient bool
	// Strict rules have nothing counted of a take that walks over them while
	// another store stands in for Redis: it is refused then, whatever they hold.
	Strict bool
	Allows bool // the answer allows where this rule decides: it ends the walk, and those above it are counted
}

// Answers is what Evaluate fills. Used again, it allocates nothing.
type Answers struct {
	Sets []Answer // one a set, in order
	// Degraded tells that the rescue store answered.
	Degraded bool
	// Now is the store's clock at the step, ms since the epoch.
	Now int64
}

// Answer is what a plan has to say of one of its sets.
type Answer struct {
	// Decider is the index of the rule that decided, -1 without one.
	Decider int
	// Reporter is the index of the rule that the numbers below belong to, -1
	// if there is nothing to report: the decider, else of the walked rules
	// in force the one with the least remaining, the first among equals.
	Reporter int
	// Refusals are indices of rules that refuse: of a walk, the shadow rules
	// that were met and would have refused; of Complete, every rule.
	Refusals []int

	Limit     int64
	Remaining int64
	Reset     int64 // ms until the reporter is as new
	Retry     int64 // ms until the weight would fit, -1 where it never does or nothing was refused
	// Daily tells that the numbers are those of the day's free hits of a
	// Base rule, not of its second window.
	Daily bool
	// Hits is what is counted now, of a Base rule the day's hits; Peek only.
	Hits int64
}

// Store evaluates plans.
type Store interface {
	// Evaluate carries out the plan as one atomic step and fills a. It
	// returns an error if the plan was not decided; it may then have been
	// counted, but was never admitted.
	Evaluate(ctx context.Context, p *Plan, a *Answers) error
}
