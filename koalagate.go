// Package koalagate decides requests in a Go program, by rule files that it reloads
// when they change. The counters are in process, or in a Redis that the program
// shares with its other instances and with the koalagate service of its gateways.
//
//	gate, err := koalagate.Open(koalagate.Options{Rules: []string{"rules.conf"}})
//	if err != nil {
//		return err
//	}
//	defer gate.Close()
//
//	d, err := gate.Allow(ctx, map[string]string{"act": "comment", "uid": user})
//	if err != nil || !d.Allowed() {
//		// refuse
//	}
//
// Package middleware applies a gate to HTTP handlers. Package engine has more
// operations, such as refunds and atomic decisions about several inputs. The service
// for gateways is cmd/koalagate.
package koalagate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/app"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/internal/tokens"
	"github.com/koalagate/koalagate/internal/tokens/keyset"
	"github.com/koalagate/koalagate/rules"
)

// Door is the door name of Gate.Allow, for use in Options.Modes and
// Options.FailPolicies.
const Door = "program"

// Options are the options of Open. Rules is required.
type Options struct {
	// Rules are paths of rule files, and of folders whose *.conf files are rule files.
	Rules []string
	// DictRoot is the folder that paths of word lists are relative to; "" for the
	// folder of the rule file that names the list.
	DictRoot string
	// Timezone is the IANA time zone of calendar days, for rule files that state none; ""
	// is UTC.
	Timezone string
	// RequireEnd refuses rule files that do not end with [end], so that no truncated file
	// becomes active.
	RequireEnd bool
	// Redis is the URL of the Redis with the counters: redis://, unix://,
	// redis-sentinel:// or redis-cluster://; with TLS rediss instead of redis. While
	// Redis is unavailable, this process counts on its own. "" counts in process,
	// unless RedisOptions has a Client.
	Redis string
	// RedisPrefix begins every key. "" is the prefix of the service, which then
	// shares its counters with this program. It is an error without a Redis.
	RedisPrefix string
	// RedisOptions are further options of Redis. The zero value has the defaults of
	// the service.
	RedisOptions RedisOptions
	// MaxIdentities is the maximum number of identities with their own counters in
	// this process; additional identities share counters. 0 means 1,000,000.
	MaxIdentities int
	// MaxReceipts is the maximum number of open receipts that this process keeps. Beyond
	// it, hold rules refuse and estimates stand. 0 means 100,000.
	MaxReceipts int
	// RescueShare is the share of each limit that this process admits while Redis is
	// unavailable, above 0 and up to 1. 0 means 1. With 1/N, N instances together
	// admit as much as with Redis.
	RescueShare float64
	// FailPolicies are the policies of doors while Redis is unavailable; nil
	// leaves them to the rules.
	FailPolicies engine.Policies
	// Modes are the modes of doors, which may change later. If it is nil, every door
	// enforces.
	Modes *engine.Modes
	// Observe, if not nil, is called after each decision, in the goroutine of the
	// caller. It must not retain its arguments.
	Observe func(*engine.Call, *engine.Decision, error)
	// Logger receives messages about reloads, about changes in the availability of
	// Redis and, at most every ten seconds, about calls that Redis did not answer.
	// Nil means slog.Default.
	Logger *slog.Logger
}

// Gate is an engine with its rules and counters. It is safe for concurrent use. The zero
// value and a nil Gate return an error for every call.
type Gate struct {
	app    *app.App
	keys   *keyset.Keeper
	cancel context.CancelFunc
	watch  sync.WaitGroup
}

// Open reads the rules, opens the counters and watches the rule files until Close. If
// the rules have errors, Open returns an error that names the first one. If a later
// change has errors, they are logged and the current rules stay active. An
// unreachable Redis is not an error.
func Open(o Options) (*Gate, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	keys := keyset.New(keyset.Options{Logger: o.Logger})
	ring := tokens.NewRing(tokens.Options{Remembered: rememberedTokens, Address: keys.Source})
	opened, err := app.Open(app.Options{
		Files: reload.Files{Paths: o.Rules, DictRoot: o.DictRoot, Rules: rules.Options{Timezone: o.Timezone, RequireEnd: o.RequireEnd, OpenToken: ring.Open}},
		Redis: o.redis(), MaxIdentities: o.MaxIdentities, MaxReceipts: o.MaxReceipts, RescueShare: o.RescueShare,
		Policies: o.FailPolicies, Modes: o.Modes,
		Logger: o.Logger, Hooks: app.Hooks{Decision: o.Observe, Set: func(set *rules.Set) { keys.Use(keyset.InForce, set); keys.Await() }},
	})
	if err != nil {
		keys.Close()
		return nil, err
	}
	g := &Gate{app: opened, keys: keys}
	var watching context.Context
	watching, g.cancel = context.WithCancel(context.Background())
	g.watch.Go(func() { opened.Watch(watching) })
	return g, nil
}

// rememberedTokens is the number of valid tokens that are remembered for each line of [tokens],
// as in the service by default.
const rememberedTokens = 10_000

// check returns an error for options that would admit requests by mistake, or that
// contradict each other.
func (o *Options) check() error {
	if !(o.RescueShare >= 0 && o.RescueShare <= 1) { // also refuses NaN
		return fmt.Errorf("koalagate: RescueShare is %v; want 0 … 1", o.RescueShare)
	}
	for door, policy := range o.FailPolicies {
		if policy > rules.FailDeny {
			return fmt.Errorf("koalagate: FailPolicies: unknown policy %d of door %q", policy, door)
		}
	}
	if o.RedisOptions.Client != nil && o.Redis != "" {
		return errors.New("koalagate: both Redis and RedisOptions.Client are set; leave one of them out")
	}
	if o.RedisPrefix != "" && !o.hasRedis() {
		return errors.New("koalagate: RedisPrefix is set, and neither Redis nor RedisOptions.Client; this process would count on its own")
	}
	if _, err := time.LoadLocation(o.Timezone); err != nil || o.Timezone == "Local" {
		return fmt.Errorf("koalagate: Timezone is %q; want the name of an IANA time zone, such as Europe/Berlin", o.Timezone)
	}
	return nil
}

// hasRedis reports whether the options name a Redis.
func (o *Options) hasRedis() bool {
	return o.Redis != "" || !reflect.ValueOf(o.RedisOptions).IsZero()
}

// Allow decides one hit with these parameters, and counts it if it is allowed. The
// operation is engine.Take at the door Door. The parameter door has the value Door too,
// unless params sets it.
//
// If a rule with wait=SECONDS makes the hit wait for its turn, Allow returns at the turn;
// a hit whose turn is after the deadline of ctx is refused at once. If the decision has a
// receipt, the program settles it with Decision.Settle when the work is done.
//
// Allow returns an error if ctx is done, if the parameters are invalid, or if Open did not
// return g; the Decision then does not allow the request.
func (g *Gate) Allow(ctx context.Context, params map[string]string) (engine.Decision, error) {
	in := rules.MakeParams(params)
	if _, stated := params["door"]; !stated {
		in.Set("door", Door)
	}
	d, err := g.Engine().Decide(ctx, &engine.Call{
		Door: Door, Op: engine.Take, Patience: engine.MaxWait, Inputs: []engine.Input{{Params: in}},
	})
	if err != nil {
		return engine.Decision{}, err
	}
	return *d, nil
}

// Engine returns the engine of the gate. It is nil if Open did not return g; a nil
// engine returns an error for every call.
func (g *Gate) Engine() *engine.Engine {
	if g == nil || g.app == nil {
		return nil
	}
	return g.app.Engine()
}

// Close stops watching the rule files and closes the counters. The gate must not be
// used afterwards.
func (g *Gate) Close() error {
	if g == nil || g.app == nil {
		return nil
	}
	g.cancel()
	g.keys.Close()
	g.watch.Wait()
	return g.app.Close()
}
