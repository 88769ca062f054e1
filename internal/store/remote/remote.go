// Package remote opens the store in Redis that instances share. The scheme of
// the URL decides which: package redis for one server or Sentinels, package
// cluster for a Redis Cluster.
package remote

import (
	"context"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/cluster"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// Store is a store in Redis, on one server or a Cluster. It is safe for
// concurrent use.
type Store interface {
	store.Store
	store.Lessor
	store.Assigner
	// Try is Evaluate, and also returns the evidence of the attempt about Redis.
	Try(ctx context.Context, p *store.Plan, a *store.Answers) (store.Attempt, error)
	// TryAssign is Assign, and also returns the evidence of the attempt about Redis.
	TryAssign(ctx context.Context, u *store.Usage) (store.Assignment, store.Attempt, error)
	// Check returns an error that explains why Redis cannot count now, or nil.
	Check(ctx context.Context) error
	// Inspect returns findings about the version and settings of Redis that
	// can lose counters or fail calls, with an error if servers did not answer.
	Inspect(ctx context.Context) ([]redisconn.Finding, error)
	// Clocks reads the clocks by which Redis counts, with an error if servers
	// did not answer.
	Clocks(ctx context.Context) ([]redisconn.Clock, error)
	// Calls returns how plans were carried out so far.
	Calls() redis.Calls
	// Load returns the current load of the store, and its connections.
	Load() redis.Load
	// Clear removes every key under the store's prefix.
	Clear(ctx context.Context) error
	// Close ends the calls under way and closes the connections.
	Close() error
}

var (
	_ Store = (*redis.Store)(nil)
	_ Store = (*cluster.Store)(nil)
)

// Open returns a store in the Redis that o describes. It does not wait for
// Redis; Check does.
func Open(o redis.Options) (Store, error) {
	if kind, _ := redisconn.KindOf(o.URL); kind == redisconn.Cluster && o.Client == nil {
		return orNil(cluster.Open(o))
	}
	return orNil(redis.Open(o))
}

// orNil returns a nil interface instead of a nil pointer in one.
func orNil[S Store](s S, err error) (Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}
