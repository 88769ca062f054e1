package app

import (
	"context"
	"errors"
	"time"

	"github.com/koalagate/koalagate/internal/method"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/remote"
	"github.com/koalagate/koalagate/internal/trial"
)

const (
	// trialBudget bounds a call of the counters of a trial, unless calls of the counters
	// in force have more time. No caller waits for a trial.
	trialBudget = time.Second
	// trialWorkers is the number of calls of a trial in Redis at a time, which go there
	// together.
	trialWorkers = 32
)

// TrialCounters are the counters of a trial: in Redis if the counters in force are there,
// else in process.
type TrialCounters struct {
	Store store.Store
	Links trial.Links // nil in process
	// Workers is the number of calls that the trial should decide at a time.
	Workers int

	copy  func(context.Context, []*store.Rule) ([]redis.Copied, error)
	name  *redis.SpaceName // nil in process, and with an end
	close func() error
}

// OpenTrial opens counters that begin as copies of the counters in force. All instances that name
// a space share it, and it expires at until at the latest; without Redis it is one of this
// process. With a zero until they share it as long as one of them uses it: each must call Keep every
// few seconds.
func (a *App) OpenTrial(space string, until time.Time) (*TrialCounters, error) {
	c := a.counters
	if c.redis == nil {
		own := memory.New(memory.Options{MaxIdentities: c.options.MaxIdentities, MaxReceipts: c.options.MaxReceipts})
		return &TrialCounters{
			Store: own, Workers: 1,
			copy: func(_ context.Context, rules []*store.Rule) ([]redis.Copied, error) {
				now := time.Now()
				copied := make([]redis.Copied, len(rules))
				for i, made := range own.Copy(c.memory, rules) {
					if made {
						copied[i] = redis.Copied{Now: true, At: now}
					}
				}
				return copied, nil
			},
			close: func() error { own.Close(); return nil },
		}, nil
	}
	o := *c.options.Redis
	o.Space, o.Until, o.Budget = space, until, max(trialBudget, o.Budget)
	client := o.Client
	if client == nil {
		address, err := o.Address()
		if err != nil {
			return nil, err
		}
		client = address.ConnectAny()
	}
	var name *redis.SpaceName
	if until.IsZero() {
		name = redis.NewSpaceName(client, &o, space)
		shared, _ := name.Join(context.Background()) // without Redis, Keep finds the name of the others
		o.Space = "trial:" + shared
	}
	own, err := remote.Open(o)
	if err != nil {
		if o.Client == nil {
			err = errors.Join(err, client.Close())
		}
		return nil, err
	}
	copier := redis.NewCopier(client, &o)
	return &TrialCounters{
		Store: own, Links: copier, Workers: trialWorkers, copy: copier.Copy, name: name,
		close: func() error {
			if name != nil {
				_ = name.Leave(context.Background()) // else its part lapses
			}
			err := own.Close()
			if o.Client == nil {
				_ = client.Close() // its connections have no calls any more
			}
			return err
		},
	}, nil
}

// Copy copies the counters of rules from those in force, unless the trial has them, and
// returns for each rule when it was copied, also by another instance, zero for never.
// Counters of hold rules begin empty: only the receipts of the rules in force would end
// their holds.
func (t *TrialCounters) Copy(ctx context.Context, rules []*store.Rule) ([]time.Time, error) {
	copied, err := t.copy(ctx, rules)
	if err != nil {
		return nil, err
	}
	at := make([]time.Time, len(rules))
	var holds []store.Rule
	for i, r := range rules {
		if !method.Of(r.Method).Holds {
			at[i] = copied[i].At
		} else if copied[i].Now {
			holds = append(holds, *r)
		}
	}
	if len(holds) == 0 {
		return at, nil
	}
	var a store.Answers
	return at, t.Store.Evaluate(ctx, &store.Plan{Op: store.Reset, Zone: time.UTC, Sets: []store.Set{{Rules: holds}}}, &a)
}

// Keep keeps the part of this instance in the counters. It reports whether the other instances have the
// same ones.
func (t *TrialCounters) Keep(ctx context.Context) (same bool, err error) {
	if t.name == nil {
		return true, nil
	}
	return t.name.Keep(ctx)
}

// Close closes the counters.
func (t *TrialCounters) Close() error { return t.close() }
