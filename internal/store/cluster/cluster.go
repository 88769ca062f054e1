// Package cluster keeps the counters in a Redis Cluster.
//
// It evaluates plans as package redis does, with the same Evaluator, and sends
// each call to the node that owns the slot of its keys: nodes.go keeps the
// nodes, slotmap.go which node owns which slot, and redirect.go follows MOVED
// and ASK. A plan whose counters lie in several slots is split into a part per
// slot (split.go). Each part of a take takes all of its rules or nothing, and
// returns undo records; if another part refuses, the undo records give back in
// the background what was taken (take.go, undo.go). Where the rules to count
// depend on rules in other slots, the slots are asked first (ask.go). Each node
// has a breaker: a node that fails is unreachable until a check finds it again,
// and the other nodes continue.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// Store keeps the counters in a Redis Cluster. It is safe for concurrent use.
type Store struct {
	evaluator *redis.Evaluator
	nodes     *nodes
	fixed     bool         // all keys are in one slot
	undoing   atomic.Int64 // parts that are being given back
	stranded  atomic.Int64 // parts that were not given back
}

var _ store.Store = (*Store)(nil)

var errNotCluster = errors.New("want redis-cluster:// or rediss-cluster://")

// Open returns a store in the Cluster that o describes. It does not wait for
// the nodes; Check does. A URL of another scheme, and a Client, are errors.
func Open(o redis.Options) (*Store, error) {
	e, err := redis.NewEvaluator(&o)
	if err != nil {
		return nil, err
	}
	if o.Client != nil {
		return nil, &redisconn.OptionError{Option: "Client", Err: errors.New("not supported for a Cluster; use its URL")}
	}
	address, err := o.Address()
	if err != nil {
		return nil, err
	}
	if address.Kind != redisconn.Cluster {
		return nil, &redisconn.OptionError{Option: "URL", Err: errNotCluster}
	}
	s := &Store{evaluator: e, fixed: o.FixedTag}
	if !s.fixed {
		e.SplitReceipts()
	}
	s.nodes = &nodes{seeds: address.Hosts, evaluator: e, connect: address.ConnectNode, check: s.checkNode}
	s.nodes.start()
	return s, nil
}

// Evaluate carries out the plan and fills a. A plan whose counters all lie in
// one slot is one atomic step. Other plans are one step per slot: what a part
// took is given back a moment after another part refuses, and may refuse other
// calls until then. A call that ends without an answer may have been counted and
// is not repeated.
func (s *Store) Evaluate(ctx context.Context, p *store.Plan, a *store.Answers) error {
	_, err := s.Try(ctx, p, a)
	return err
}

// Try is Evaluate, and also returns the evidence of the attempt about the Cluster.
func (s *Store) Try(ctx context.Context, p *store.Plan, a *store.Answers) (store.Attempt, error) {
	c, err := s.evaluator.Begin(ctx, p, a)
	if err != nil {
		return store.Attempt{Health: store.Starved, Unsent: true}, err
	}
	if slot, one := slotOfCall(c); one {
		if c.Slot = slot; !s.fixed && c.MakesReceipt() {
			c.MakeReceipt(tagOf(slot), appendSlot(newReceipt(), slot))
		}
		sending := s.evaluator.Start(ctx, c, p, a)
		if sending == nil {
			return store.Attempt{}, nil
		}
		abandoned, err := s.nodes.Send(sending, c)
		attempt, err := s.evaluator.End(c, p, a, abandoned, err)
		return corrected(attempt, err), err
	}
	start, end := c.Time()
	s.evaluator.Release(c)
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	err = s.evaluateSplit(ctx, p, a)
	unsent := errors.Is(err, redisconn.ErrUnsent) && !errors.Is(err, errCounted)
	return corrected(store.Attempt{Health: s.evaluator.Judge(err, end.Sub(start)), Unsent: unsent}, err), err
}

// slotOfCall returns the slot of the call's keys, and whether all have the same.
func slotOfCall(c *redis.Call) (slot uint16, one bool) {
	first := true
	for key := range c.SubjectKeys {
		at := slotOf(key)
		if !first && at != slot {
			return 0, false
		}
		slot, first = at, false
	}
	return slot, true
}

// corrected returns an attempt as one on the whole Cluster. Each node has its own breaker
// and trips, so only a failed refresh of the slot map is a trip of the whole. An error of
// one node shows nothing about the others. A call that was not sent because all nodes are
// unreachable failed for the nodes' reason, not for lack of time in this call.
func corrected(attempt store.Attempt, err error) store.Attempt {
	if err == nil {
		return attempt
	}
	attempt.Trip = refreshOf(err)
	switch {
	case attempt.Health == store.Starved && !errors.Is(err, errUnreachable):
	case ofOneNode(err):
		attempt.Health = store.Unknown
	case errors.Is(err, errUnreachable) && redisconn.Unreachable(err):
		attempt.Health = store.Unreachable
	case errors.Is(err, errUnreachable):
		attempt.Health = store.Failed
	}
	return attempt
}

// Check returns an error that explains why no node of the Cluster can count, or
// nil. If one can, calls for other nodes are answered in process until those can.
// Each node has a budget of its own, so that a node that hangs takes no time from
// the others; Check takes at most about two budgets.
func (s *Store) Check(ctx context.Context) error {
	if err := s.check(ctx); err != nil {
		return fmt.Errorf("redis: check: %w", err)
	}
	return nil
}

func (s *Store) check(ctx context.Context) error {
	if err := s.nodes.refresh(ctx); err != nil {
		return err
	}
	_, err := firstAnswer(ctx, s.nodes, s.nodes.masters(), func(ctx context.Context, n *node) (struct{}, error) {
		return struct{}{}, s.checkNode(ctx, n)
	})
	return err
}

// checkNode returns why a node cannot count, or marks it as reachable. A node
// without slots only has to accept connections.
func (s *Store) checkNode(ctx context.Context, n *node) error {
	ctx, cancel := context.WithTimeout(ctx, s.evaluator.Budget())
	defer cancel()
	if err := redisconn.Knock(ctx, n.client); err != nil {
		return err
	}
	if c := s.checkCall(n); c != nil {
		if err := n.batcher.SendAlone(ctx, c); err != nil && !refusedSlot(err) {
			return redisconn.RefusedConnection(ctx, n.client, err)
		}
	}
	n.breaker.Reset()
	n.unreachable.Store(false)
	return nil
}

// refusedSlot reports whether a healthy node refused a call only because of its
// slot.
func refusedSlot(err error) bool {
	return slices.ContainsFunc([]string{"MOVED", "ASK", "TRYAGAIN", unservedSlot}, func(prefix string) bool {
		return goredis.HasErrorPrefix(err, prefix)
	})
}

// maxCheckKeys is the number of keys that are tried to find one in a node's
// slots. The chance to miss a node with one slot in a hundred is 1 in 2^58.
const maxCheckKeys = 4000

// checkCall returns a call that counts on a key in one of n's slots; nil if none
// was found.
func (s *Store) checkCall(n *node) *redis.Call {
	for i := range maxCheckKeys {
		plan := redis.CheckPlan(strconv.Itoa(i))
		slot := slotOf(s.evaluator.AppendKey(nil, plan.Sets[0].Rules[0].Subject))
		if s.nodes.owners[slot].Load() != n {
			continue
		}
		c := s.evaluator.NewCall(plan)
		c.Slot = slot
		return c
	}
	return nil
}

// Inspect returns findings about the version and settings of every master that
// can lose counters or fail calls. If the user may not read them, the only
// finding is that. An error names the masters that did not answer; findings about
// the others are returned with it.
func (s *Store) Inspect(ctx context.Context) ([]redisconn.Finding, error) {
	if err := s.nodes.refresh(ctx); err != nil {
		return nil, err
	}
	var all []redisconn.Finding
	seen := make(map[string]bool)
	err := s.nodes.eachOwner(func(n *node) error {
		list, err := redisconn.Inspect(ctx, n.client)
		for _, f := range list {
			if !seen[f.Text] { // most nodes have the same settings
				seen[f.Text] = true
				all = append(all, redisconn.Finding{Text: "node " + n.addr + ": " + f.Text, Warning: f.Warning})
			}
		}
		return err
	})
	return all, err
}

// Clocks reads the clocks of the reachable masters, by which they count. Each
// has the budget of a call. An error names the masters that did not answer; the other
// clocks are returned with it.
func (s *Store) Clocks(ctx context.Context) ([]redisconn.Clock, error) {
	if s.nodes.masters() == nil {
		return nil, errors.New("redis: read the clocks: the nodes of the Cluster are unknown")
	}
	var all []redisconn.Clock
	err := s.nodes.eachOwner(func(n *node) error {
		if n.unreachable.Load() {
			return nil
		}
		c, err := redisconn.ReadClock(ctx, n.client, n.addr, s.evaluator.Budget())
		if err == nil {
			all = append(all, c)
		}
		return err
	})
	return all, err
}

// Calls returns how plans were carried out so far.
func (s *Store) Calls() redis.Calls {
	c := s.evaluator.Calls()
	c.Stranded = s.stranded.Load()
	return c
}

// Load returns the current load of the store, with the connections to all nodes.
func (s *Store) Load() redis.Load {
	l := s.evaluator.Load()
	for _, n := range s.nodes.all() {
		l.AddPool(n.client)
	}
	return l
}

// Clear removes every key under the store's prefix from all masters. Nothing
// else may count under that prefix meanwhile.
func (s *Store) Clear(ctx context.Context) error {
	defer s.evaluator.ForgetRefusals()
	if err := s.clear(ctx); err != nil {
		return fmt.Errorf("redis: remove the keys of %s: %w", s.evaluator.Prefix(), err)
	}
	return nil
}

func (s *Store) clear(ctx context.Context) error {
	if err := s.nodes.refresh(ctx); err != nil {
		return err
	}
	return s.nodes.eachOwner(func(n *node) error { return redisconn.Clear(ctx, n.client, s.evaluator.Prefix()) })
}

// Close waits for hits that are being given back, ends the calls in progress and
// closes the connections.
func (s *Store) Close() error {
	defer s.evaluator.Close()
	return s.nodes.close()
}
