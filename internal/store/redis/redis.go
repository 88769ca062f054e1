// Package redis keeps the counters in one Redis server that several instances
// share. A plan is one call of a Lua script, which Redis runs atomically.
//
// The way of a plan: Evaluator.Begin checks it and packs it into a Call
// (call.go, encode.go). Calls that Redis refused a moment ago are answered from memory
// (refusals.go). A Sender takes the others: a Batcher gathers the calls of many
// callers (batch.go, sender.go), puts them into bundles, each one call of the script
// (bundle.go), and exchanges them with the server (exchange.go). The script in
// lua/ decides and counts; plan.lua describes its argument and its reply.
// decode.go gives each call its part of the reply, and Evaluator.End reads it.
// Package cluster uses the same Evaluator with a Sender that finds the node
// of a call, and gives back parts of takes by undo records (undo.go).
package redis

import (
	"context"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// Store keeps the counters in one Redis server, or in the master that Sentinels
// name. It is safe for concurrent use.
type Store struct {
	evaluator *Evaluator
	batcher   *Batcher
	client    goredis.UniversalClient
	owned     bool // Close closes the client
}

var _ store.Store = (*Store)(nil)

// Open returns a store in the Redis that o describes. It does not wait for
// Redis; Check does. A URL of a Cluster is an error: package cluster opens it.
func Open(o Options) (*Store, error) {
	e, err := NewEvaluator(&o)
	if err != nil {
		return nil, err
	}
	s := &Store{evaluator: e, client: o.Client}
	if o.Client != nil {
		if err := redisconn.CheckClient(o.Client); err != nil {
			return nil, err
		}
	} else {
		address, err := o.Address()
		if err != nil {
			return nil, err
		}
		if address.Kind == redisconn.Cluster {
			return nil, &redisconn.OptionError{Option: "URL", Err: errCluster}
		}
		s.client, s.owned = address.Connect(), true
	}
	s.batcher = e.NewBatcher(s.client)
	return s, nil
}

// Evaluate carries out the plan as one atomic step and fills a. A call that
// ends without an answer may have been counted and is not repeated.
func (s *Store) Evaluate(ctx context.Context, p *store.Plan, a *store.Answers) error {
	_, err := s.Try(ctx, p, a)
	return err
}

// Try is Evaluate, and also returns the evidence of the attempt about Redis.
func (s *Store) Try(ctx context.Context, p *store.Plan, a *store.Answers) (store.Attempt, error) {
	c, err := s.evaluator.Begin(ctx, p, a)
	if err != nil {
		return store.Attempt{Health: store.Starved, Unsent: true}, err
	}
	sending := s.evaluator.Start(ctx, c, p, a)
	if sending == nil {
		return store.Attempt{}, nil
	}
	abandoned, err := s.batcher.Send(sending, c)
	return s.evaluator.End(c, p, a, abandoned, err)
}

// Check returns an error that explains why Redis cannot count now, or nil. It
// connects, runs the script and thereby everything that the script calls. It
// takes at most about the budget of a call.
func (s *Store) Check(ctx context.Context) error {
	if err := s.check(ctx); err != nil {
		return fmt.Errorf("redis: check: %w", err)
	}
	return nil
}

func (s *Store) check(ctx context.Context) error {
	budget := s.evaluator.Budget()
	ctx, cancel := context.WithTimeout(ctx, budget+margin) // the budget is for the call alone
	defer cancel()
	client, ok := s.client.(*goredis.Client)
	if !ok {
		return s.countCheck(ctx, budget)
	}
	if err := redisconn.Knock(ctx, client); err != nil {
		return err
	}
	return redisconn.RefusedConnection(ctx, client, s.countCheck(ctx, budget))
}

// countCheck evaluates CheckPlan outside of all batches.
func (s *Store) countCheck(ctx context.Context, budget time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	if err := s.batcher.SendAlone(ctx, s.evaluator.NewCall(CheckPlan(""))); err != nil {
		return fmt.Errorf("redis: evaluate: %w", err)
	}
	return nil
}

// Inspect returns findings about the version and settings of Redis that can
// lose counters or fail calls. If the user may not read them, the only finding
// is that. An error means that Redis did not answer.
func (s *Store) Inspect(ctx context.Context) ([]redisconn.Finding, error) {
	return redisconn.Inspect(ctx, s.client)
}

// Clocks reads the clock of Redis, by which it counts, within the budget of a
// call.
func (s *Store) Clocks(ctx context.Context) ([]redisconn.Clock, error) {
	c, err := redisconn.ReadClock(ctx, s.client, "", s.evaluator.Budget())
	if err != nil {
		return nil, err
	}
	return []redisconn.Clock{c}, nil
}

// Calls returns how plans were carried out so far.
func (s *Store) Calls() Calls { return s.evaluator.Calls() }

// Clear removes every key under the store's prefix. Nothing else may count
// under that prefix meanwhile.
func (s *Store) Clear(ctx context.Context) error {
	defer s.evaluator.ForgetRefusals()
	if err := redisconn.Clear(ctx, s.client, s.evaluator.Prefix()); err != nil {
		return fmt.Errorf("redis: remove the keys of %s: %w", s.evaluator.Prefix(), err)
	}
	return nil
}

// Close ends the calls under way and closes the connections, unless the client
// is the caller's.
func (s *Store) Close() error {
	s.batcher.Close()
	s.evaluator.Close()
	if !s.owned {
		return nil
	}
	return s.client.Close()
}

// Load is the current load of a store in Redis.
type Load struct {
	Flying      int64 // round trips under way
	Waiting     int64 // decisions that wait for a round trip
	Idle        int64 // connections that no round trip uses
	Used        int64 // connections that round trips use
	Closed      int64 // connections that were closed since the start
	PoolTimeout int64 // round trips since the start that found no free connection in time
}

// AddPool adds the connections of a client.
func (l *Load) AddPool(c goredis.UniversalClient) {
	p := c.PoolStats()
	l.Idle += int64(p.IdleConns)
	l.Used += int64(p.TotalConns) - int64(p.IdleConns)
	l.Closed += int64(p.StaleConns)
	l.PoolTimeout += int64(p.Timeouts)
}

// Load returns the current load, without connections.
func (e *Evaluator) Load() Load { return Load{Flying: e.flying.Load(), Waiting: e.waiting.Load()} }

// Load returns the current load.
func (s *Store) Load() Load {
	l := s.evaluator.Load()
	l.AddPool(s.client)
	return l
}
