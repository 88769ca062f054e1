package app

import (
	"context"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/remote"
	"github.com/koalagate/koalagate/internal/trial"
)

const (
	// trialBudget bounds a call of the counters of a trial. Nobody waits for them.
	trialBudget = time.Second
	// trialWorkers is the number of calls of a trial in Redis at a time, which go there
	// together.
	trialWorkers = 32
)

// TrialCounters are counters of a trial: in Redis if those in force are, else in process.
type TrialCounters struct {
	Store store.Store
	Links trial.Links // nil in process
	// Workers is the number of calls that the trial should decide at a time.
	Workers int

	copy  func(context.Context, []*store.Rule) ([]bool, error)
	close func() error
}

// OpenTrial opens counters that begin as copies of those in force. All instances that name
// a space share it, and it expires at until at the latest; without Redis it is one of this
// process.
func (a *App) OpenTrial(space string, until time.Time) (*TrialCounters, error) {
	c := a.counters
	if c.redis == nil {
		own := memory.New(memory.Options{MaxIdentities: c.options.MaxIdentities, MaxReceipts: c.options.MaxReceipts})
		return &TrialCounters{
			Store: own, Workers: 1,
			copy:  func(_ context.Context, rules []*store.Rule) ([]bool, error) { return own.Copy(c.memory, rules), nil },
			close: func() error { own.Close(); return nil },
		}, nil
	}
	o := *c.options.Redis
	o.Space, o.Until, o.Budget = space, until, trialBudget
	client := o.Client
	if client == nil {
		address, err := o.Address()
		if err != nil {
			return nil, err
		}
		client = address.ConnectAny()
	}
	own, err := remote.Open(o)
	if err != nil {
		return nil, err
	}
	copier := redis.NewCopier(client, &o)
	return &TrialCounters{
		Store: own, Links: copier, Workers: trialWorkers, copy: copier.Copy,
		close: func() error {
			err := own.Close()
			if o.Client == nil {
				_ = client.Close() // its connections have no calls any more
			}
			return err
		},
	}, nil
}

// Copy copies the counters of rules from those in force, unless the trial has them, and
// reports for each rule whether it was copied. Counters of hold rules begin empty: only
// the receipts of the rules in force would end their holds.
func (t *TrialCounters) Copy(ctx context.Context, rules []*store.Rule) ([]bool, error) {
	copied, err := t.copy(ctx, rules)
	if err != nil {
		return nil, err
	}
	var holds []store.Rule
	for i, r := range rules {
		if r.Method == store.Hold && copied[i] {
			holds, copied[i] = append(holds, *r), false
		}
	}
	if len(holds) == 0 {
		return copied, nil
	}
	var a store.Answers
	return copied, t.Store.Evaluate(ctx, &store.Plan{Op: store.Reset, Zone: time.UTC, Sets: []store.Set{{Rules: holds}}}, &a)
}

// Clear removes the counters of the trial. Nothing may use them any more.
func (t *TrialCounters) Clear(ctx context.Context) error {
	if own, ok := t.Store.(remote.Store); ok {
		return own.Clear(ctx)
	}
	return nil
}

// Close closes the counters.
func (t *TrialCounters) Close() error { return t.close() }
