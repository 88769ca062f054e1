// Package app opens an engine with its parts: rules that are reloaded when their
// files change, and counters in process or in Redis. Go programs (package koalagate)
// and the service (internal/service) open it with the same options.
package app

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/fleet"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

// Options are the options of Open. Files or Published is required.
type Options struct {
	// Files are the rule files.
	Files reload.Files
	// Published are the rules in Redis that replace Files; nil for none. Open sets
	// Notify and Logger.
	Published *fleet.MemberOptions
	// WatchInterval is the time between two reads of the rule files; 0 for the
	// default of package reload.
	WatchInterval time.Duration
	// StateDir is the folder in which the last valid rules are saved; "" saves none.
	StateDir string

	// Redis is the Redis that holds the counters. Nil counts in process only.
	Redis *redis.Options
	// RedisName is the URL of Redis in logs, without secrets; "" omits it.
	RedisName string
	// Supervise logs settings of Redis that can lose counters, and jumps of the
	// clocks that counters depend on.
	Supervise bool
	// MaxIdentities is the maximum number of identities with their own counters in
	// process; 0 for the default of the store.
	MaxIdentities int
	// MaxReceipts is the maximum number of receipts that are kept in process; 0 for the
	// default of the store.
	MaxReceipts int
	// MaxSettlementsWaiting is the maximum number of settlements that wait while Redis is
	// unavailable; 0 for the default of the store.
	MaxSettlementsWaiting int
	// LeaseTime is how long this process may hold a part of a limit in advance; 0 for
	// the default of package lease.
	LeaseTime time.Duration
	// RescueShare is the share of each limit that this process admits while
	// Redis is unavailable, above 0 and up to 1; 0 means 1.
	RescueShare float64

	// Policies are the policies of doors while Redis is unavailable.
	Policies engine.Policies
	// MaxRules is the maximum number of counting rules that one call may meet, 1 …
	// 2048; 0 for the default of package engine.
	MaxRules int
	// MaxWaiting is the number of calls that may wait for their turns at the same
	// time; 0 for the default of the engine.
	MaxWaiting int
	// LimitWaits returns the limit of a call's connection; see engine.WithWaitLimits. Nil
	// limits none.
	LimitWaits func(context.Context) engine.WaitLimit
	// Modes are the modes of doors. If it is nil, every door enforces.
	Modes *engine.Modes

	// Exceptions are the exceptions of single identities; nil for none.
	Exceptions *engine.Exceptions

	// Logger receives all messages; nil for slog.Default.
	Logger *slog.Logger
	// Hooks are called while the app runs.
	Hooks Hooks
}

// Hooks are functions that observe an app. Each may be nil. They must return at
// once.
type Hooks struct {
	// Rules is called when an attempt to load the rules has changed their state, by
	// one goroutine at a time.
	Rules func(reload.State)
	// Set is called with each rule set before it decides, by one goroutine at a time.
	Set func(*rules.Set)
	// Expected is called with a published set that may come into force soon, while others
	// decide, and Forgotten when the set is not needed any more, also while Expected runs for
	// another one.
	Expected  func(context.Context, *rules.Set)
	Forgotten func(*rules.Set)
	// Matches is called before Decision with the rules that matched; see
	// engine.ObserveMatches.
	Matches func(*engine.Call, *rules.Set, []rules.Match, *engine.Answer)
	// Reported is called after each report of a gateway that decides by itself; see
	// engine.ObserveReports.
	Reported func(*engine.Call, *rules.Set, []rules.Match, *engine.Usage, *engine.Assignment)
	// Decision is called after each decision; see engine.Observe.
	Decision func(*engine.Call, *engine.Decision, error)
	// Settled is called after each settlement, and Renewed after each renewal; see
	// engine.ObserveSettlements.
	Settled, Renewed func(*engine.Settlement, engine.Settled, error)
	// Evaluated is called with the time that the counters took for a decision.
	Evaluated func(time.Duration)
	// Degraded is called when Redis becomes unavailable (true) or available.
	Degraded func(bool)
	// Damaged is called for each key in Redis that contains no valid counters.
	Damaged func()
	// Lag is called with the lateness of this process's timers, up to 500 times
	// per second while Redis is in use.
	Lag func(time.Duration)
	// RoundTrip is called after each round trip to Redis, with the time that it took
	// and the kind of its fault, "" for none.
	RoundTrip func(took time.Duration, fault string)
	// Script is called for each script call of Redis, with the number of decisions
	// in it.
	Script func(decisions int)
	// Evicted is called with the number of keys that Redis evicted since the last
	// call, at most every ten seconds per server.
	Evicted func(int64)
	// TooManyRules is called for each call that meets more than MaxRules rules.
	TooManyRules func()
	// TooManyWaiting is called for each call that must not wait for its turn, because of
	// MaxWaiting or LimitWaits.
	TooManyWaiting func()
	// TooManySettlements is called for each settlement beyond MaxSettlementsWaiting.
	TooManySettlements func()
	// SettlementGivenUp is called for each settlement that has failed for a minute although Redis
	// answers.
	SettlementGivenUp func()
}

// App is an open engine with its rules and counters. Close it after use.
type App struct {
	engine   *engine.Engine
	rules    source
	member   *fleet.Member // nil without published rules
	counters *counters
	setHook  func(*rules.Set) // Hooks.Set
}

// source supplies the rules: files, or published versions in Redis.
type source interface {
	Run(ctx context.Context, apply func(*rules.Set))
	Trigger()
	State() reload.State
}

// Open reads the rules and opens the counters. If the rules have errors, the error wraps a
// *reload.FindingsError, unless StateDir has rules of an earlier run. An unreachable Redis is
// not an error: the counters are in process until it answers. Without published rules in
// Redis, decisions are Unavailable until Watch finds some.
func Open(o Options) (*App, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	a := new(App)
	set, err := a.openRules(&o)
	if err != nil {
		return nil, err
	}
	if a.counters, err = openCounters(&o); err != nil {
		return nil, err
	}
	if a.setHook = o.Hooks.Set; a.setHook != nil && set != nil {
		a.setHook(set)
	}
	a.engine = engine.New(set, wiring.CountIn(a.counters), engine.WithModes(o.Modes), engine.WithPolicies(o.Policies),
		engine.ObserveMatches(o.Hooks.Matches), engine.ObserveReports(o.Hooks.Reported), engine.Observe(o.Hooks.Decision), engine.WithMaxRules(o.MaxRules, o.Hooks.TooManyRules), engine.WithExceptions(o.Exceptions),
		engine.WithMaxWaiting(o.MaxWaiting), engine.WithWaitLimits(o.LimitWaits), engine.ObserveTooManyWaiting(o.Hooks.TooManyWaiting),
		engine.ObserveSettlements(o.Hooks.Settled, o.Hooks.Renewed))
	return a, nil
}

// openRules opens the source of the rules and returns the first set: nil if none is
// published yet.
func (a *App) openRules(o *Options) (*rules.Set, error) {
	if o.Published != nil {
		p := *o.Published
		p.Notify, p.Expect, p.Forget, p.Logger = o.Hooks.Rules, o.Hooks.Expected, o.Hooks.Forgotten, o.Logger
		a.member = fleet.NewMember(p)
		a.rules = a.member
		return a.member.First(context.Background()), nil
	}
	files := reload.New(reload.Options{
		Files: o.Files, Interval: o.WatchInterval, StateDir: o.StateDir, Notify: o.Hooks.Rules, Logger: o.Logger,
	})
	a.rules = files
	set, findings, err := files.First()
	if err != nil {
		return nil, fmt.Errorf("cannot read the rules: %w", err)
	}
	if findings.HasErrors() {
		return nil, fmt.Errorf("the rules have errors: %w", &reload.FindingsError{Findings: findings})
	}
	return set, nil
}

// Watch reloads the rules when their files change, until ctx is done.
func (a *App) Watch(ctx context.Context) {
	a.rules.Run(ctx, func(set *rules.Set) {
		if a.setHook != nil {
			a.setHook(set)
		}
		a.engine.Swap(set)
	})
}

// Reload reads the rules again now, without waiting for the result.
func (a *App) Reload() { a.rules.Trigger() }

// Engine returns the engine.
func (a *App) Engine() *engine.Engine { return a.engine }

// Member returns the instance's part in published rules, nil with rules of files.
func (a *App) Member() *fleet.Member { return a.member }

// Rules returns the state of the rules.
func (a *App) Rules() reload.State { return a.rules.State() }

// Close closes the counters. Watch must have returned, and the app must not be used
// afterwards.
func (a *App) Close() error { return a.counters.close() }
