// Package koalagate opens what a Go program needs to decide by rule files in
// its own process: rules that are read again when they change, and counters in
// process or in the Redis that the program shares with its other instances and
// with the koalagate of its gateways.
//
// The package middleware puts the engine before HTTP handlers; other programs
// ask Engine.Decide themselves. The service is cmd/koalagate.
package koalagate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/ration"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

// Options are what a Gate decides by. Only Rules is required.
type Options struct {
	// Rules are rule files, and folders of which every *.conf is one.
	Rules []string
	// DictRoot is the folder that the paths of word lists start from; "" for
	// the folder of the rule file that names them.
	DictRoot string
	// Redis is the URL of the Redis that instances share: redis://, unix://,
	// redis-sentinel:// or redis-cluster://, and with rediss for TLS. While it
	// is away, this process counts for itself. "" counts in process alone.
	Redis string
	// RedisPrefix begins every key; "" for that of the service, whose counters
	// are then these ones.
	RedisPrefix string
	// RedisOptions is what else is to be said of Redis: user and password, those
	// of Sentinels, files for TLS, the budget of a call, how a Cluster spreads
	// counters, or a client of the program's own in place of a URL. Its zero
	// value is that of the service. What Redis and RedisPrefix say is left out
	// here.
	RedisOptions store.RedisOptions
	// MaxIdentities is how many identities have counters of their own in this
	// process; 0 for store.DefaultMaxIdentities. Those beyond share counters.
	MaxIdentities int
	// RescueShare is the share of each limit that this process admits while
	// Redis is away, above 0 and up to 1; 0 for all of it.
	RescueShare float64
	// FailPolicies say what holds at doors while Redis is away; nil for what
	// the rules say.
	FailPolicies engine.Policies
	// Modes are the modes of doors, which may change later; nil for none.
	Modes *engine.Modes
	// Logger hears of reloads, of Redis going and coming, and of calls that were
	// decided without it, of these in one line in ten seconds. The default is
	// slog.Default.
	Logger *slog.Logger
}

// Gate is an engine, its rules and its counters.
type Gate struct {
	engine *engine.Engine
	cancel context.CancelFunc
	group  sync.WaitGroup
	stores []func() error // to be closed, in this order
}

// Open reads the rules, opens the counters and watches the rules for changes,
// until Close. Rules that are faulty are an error that names the first fault;
// ones that become faulty later change nothing, and are logged.
func Open(o Options) (*Gate, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Modes == nil {
		o.Modes = new(engine.Modes)
	}
	files := reload.New(reload.Options{Files: reload.Files{Paths: o.Rules, DictRoot: o.DictRoot}, Logger: o.Logger})
	set, err := firstRules(files)
	if err != nil {
		return nil, err
	}
	g := new(Gate)
	counters, err := g.open(o)
	if err != nil {
		return nil, err
	}
	g.engine = engine.New(set, wiring.CountIn(counters), engine.WithModes(o.Modes), engine.WithPolicies(o.FailPolicies))
	watching, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	g.group.Go(func() { files.Run(watching, g.engine.Swap) })
	return g, nil
}

// Engine decides by the rules in force.
func (g *Gate) Engine() *engine.Engine { return g.engine }

// Close ends the watch and closes the counters. Nothing may be decided after.
func (g *Gate) Close() error {
	g.cancel()
	g.group.Wait()
	return g.closeStores()
}

func (g *Gate) closeStores() error {
	var faults []error
	for _, end := range g.stores {
		faults = append(faults, end())
	}
	return errors.Join(faults...)
}

func firstRules(files *reload.Reloader) (*rules.Set, error) {
	set, findings, err := files.First()
	if err != nil {
		return nil, fmt.Errorf("reading the rules: %w", err)
	}
	for _, f := range findings {
		if f.Severity == rules.Error {
			return nil, fmt.Errorf("the rules are faulty: %w", f)
		}
	}
	return set, nil
}

// open opens the counters: Redis, which the in-process store stands in for, or
// the in-process store alone.
func (g *Gate) open(o Options) (store.Store, error) {
	memory := store.NewMemory(store.MemoryOptions{MaxIdentities: o.MaxIdentities})
	endMemory := func() error { memory.Close(); return nil }
	if o.Redis == "" && reflect.ValueOf(o.RedisOptions).IsZero() {
		g.stores = append(g.stores, endMemory)
		return memory, nil
	}
	redis, err := o.openRedis()
	if err != nil {
		memory.Close()
		return nil, err
	}
	rescue := store.NewRescue(redis, memory, store.RescueOptions{Share: o.RescueShare, OnChange: o.tellChange, OnRescue: o.tellRescue()})
	g.stores = append(g.stores, func() error { rescue.Close(); return nil }, redis.Close, endMemory)
	if err := store.Misplaced(rescue.State().Err); err != nil {
		return nil, errors.Join(err, g.closeStores())
	}
	return rescue, nil
}

// openRedis opens the store in Redis.
func (o *Options) openRedis() (*store.Redis, error) {
	all := o.RedisOptions
	if all.URL != "" || all.Prefix != "" {
		return nil, errors.New("RedisOptions: say the URL and the prefix in Redis and RedisPrefix")
	}
	if all.Client != nil && o.Redis != "" {
		return nil, errors.New("redis: there is a URL and a client in RedisOptions; leave one of them out")
	}
	all.URL, all.Prefix = o.Redis, o.RedisPrefix
	return store.NewRedis(all)
}

func (o *Options) tellChange(s store.State) {
	if s.Degraded {
		o.Logger.Warn("Redis is away; deciding in process until it is back", "error", s.Err, "remedy", store.Remedy(s.Err))
	} else {
		o.Logger.Info("Redis is back; counting there again")
	}
}

// tellRescue returns what tells of a call that was decided without Redis, while
// that is not taken to be away.
func (o *Options) tellRescue() func(error) {
	line := new(ration.Line)
	return func(err error) {
		if unsaid, due := line.Due(); due {
			o.Logger.Warn("Redis did not answer a call; decided it in process", "error", err, "remedy", store.Remedy(err), "since_last_line", unsaid)
		}
	}
}
