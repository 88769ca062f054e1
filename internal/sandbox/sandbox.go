// Package sandbox decides calls with its own counters, separate from any service's:
// for explanations, replays and trials of rules.
package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/remote"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

const (
	// Memory is the Store of a sandbox that counts in process.
	Memory = "memory"
	// DefaultRedisPrefix starts the keys of sandboxes in Redis.
	DefaultRedisPrefix = "koala-replay"
)

const (
	// redisBudget limits one answer of Redis. It is generous because no client
	// waits for a sandbox.
	redisBudget = 10 * time.Second
	// redisLinger is how long Redis keeps the counters. Expiry follows the clock
	// of Redis, and deciding one busy second of a trace may take longer than one
	// second.
	redisLinger = 24 * time.Hour
	// clearTimeout limits the removal of the keys.
	clearTimeout = time.Minute
)

var errNoAnswer = errors.New("the store did not answer")

// Options configures a Sandbox. The zero value counts in process.
type Options struct {
	// Store is Memory or the URL of a Redis; "" means Memory.
	Store string
	// RedisPrefix starts the keys in Redis. Each sandbox adds a random suffix,
	// so that two sandboxes never share a key. "" means DefaultRedisPrefix.
	RedisPrefix string
	// MaxRules is the maximum number of counting rules that one call may meet; 0 means the
	// maximum of the engine.
	MaxRules int
}

// Sandbox decides calls. It is safe for concurrent use.
type Sandbox struct {
	engine *engine.Engine
	close  func(context.Context) error
	shared atomic.Int64 // decisions by counters that identities share
	excess atomic.Int64 // decisions without room for their receipts
}

// Open returns a sandbox that decides by set. The caller must close it. The
// error reports an invalid Redis URL; Open does not connect.
func Open(set *rules.Set, o Options) (*Sandbox, error) {
	if o.Store == "" || o.Store == Memory {
		s := new(Sandbox)
		m := memory.New(memory.Options{OnFull: func() { s.shared.Add(1) }, OnExcess: func() { s.excess.Add(1) }})
		s.engine, s.close = engine.New(set, wiring.CountIn(m), engine.WithMaxRules(o.MaxRules, nil)), func(context.Context) error { m.Close(); return nil }
		return s, nil
	}
	if o.RedisPrefix == "" {
		o.RedisPrefix = DefaultRedisPrefix
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	r, err := remote.Open(redis.Options{
		URL: o.Store, Prefix: o.RedisPrefix + "-" + hex.EncodeToString(random[:]), Budget: redisBudget, Linger: redisLinger,
	})
	if err != nil {
		return nil, err
	}
	return &Sandbox{engine: engine.New(set, wiring.CountIn(r), engine.WithMaxRules(o.MaxRules, nil)), close: func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, clearTimeout)
		defer cancel()
		defer r.Close()
		return r.Clear(ctx)
	}}, nil
}

// Decide decides a call at the time that the call names, or at the current time
// of the store. The error comes from engine.Decide, or the reason why the store
// did not answer: a decision without counters has no use in a sandbox.
func (s *Sandbox) Decide(ctx context.Context, c *engine.Call) (*engine.Decision, error) {
	d, err := s.engine.Decide(ctx, c)
	switch {
	case err != nil:
		return nil, err
	case d.Cause != nil:
		return nil, d.Cause
	case d.Unavailable:
		return nil, errNoAnswer
	}
	return d, nil
}

// Settle settles a receipt of this sandbox, at the time that the settlement names. The
// error comes from engine.Settle.
func (s *Sandbox) Settle(ctx context.Context, end *engine.Settlement) (engine.Settled, error) {
	return s.engine.Settle(ctx, end)
}

// Renew renews a receipt of this sandbox. The error comes from engine.Renew.
func (s *Sandbox) Renew(ctx context.Context, end *engine.Settlement) (engine.Settled, error) {
	return s.engine.Renew(ctx, end)
}

// Inexact returns why some decisions differ from those of a store with room for all
// identities and receipts; "" if none do.
func (s *Sandbox) Inexact() string {
	var reasons []string
	if n := s.shared.Load(); n > 0 {
		reasons = append(reasons, fmt.Sprintf("%d calls were decided by counters that identities share, since there are more than %d identities at a time", n, memory.DefaultMaxIdentities))
	}
	if n := s.excess.Load(); n > 0 {
		reasons = append(reasons, fmt.Sprintf("%d calls had no room for a receipt, since more than %d are valid at a time", n, memory.DefaultMaxReceipts))
	}
	if len(reasons) == 0 {
		return ""
	}
	return strings.Join(reasons, "; ") + "; replay fewer calls, or count in a Redis (replay --store)"
}

// Close removes the counters and releases the store. It also works with a ctx
// that is already canceled, so that an interrupted command leaves no keys in
// Redis. Removing the keys takes one minute at most.
func (s *Sandbox) Close(ctx context.Context) error { return s.close(context.WithoutCancel(ctx)) }
