package store

import (
	"context"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// startNodes has r count in a Cluster.
func (r *Redis) startNodes(a *address, o *RedisOptions, batching Batching) {
	r.nodes = &nodes{
		seeds: a.hosts, budget: r.budget, batching: batching, exchange: r.exchange, find: r.findNode,
		connect: func(host string) *redis.Client { return redis.NewClient(a.options(o, host)) },
	}
	r.nodes.start()
}

// checkNodes tells whether there is a node that can count: the calls of the
// others are answered in its place until they can. Each node has a budget of
// its own, so that one that hangs takes no time from the others.
func (r *Redis) checkNodes(ctx context.Context) error {
	if err := r.nodes.learn(ctx); err != nil {
		return err
	}
	_, err := askFirst(ctx, r.nodes, *r.nodes.owning.Load(), func(ctx context.Context, n *node) (struct{}, error) {
		return struct{}{}, r.findNode(ctx, n)
	})
	return err
}

// tries is how many subjects are looked at for one in a node's slots. Of a node
// with one slot in a hundred, one in 2^58 is missed.
const tries = 4000

// findNode tells whether a node can count, and has it asked again if so. One
// without slots only has to take connections.
func (r *Redis) findNode(ctx context.Context, n *node) error {
	ctx, cancel := context.WithTimeout(ctx, r.budget)
	defer cancel()
	if err := knock(ctx, n.client); err != nil {
		return err
	}
	if c := r.callFor(n); c != nil {
		if err := n.batches.ask(ctx, c); err != nil && !sentOn(err) {
			return turnedAway(ctx, n.client, err)
		}
	}
	n.breaker.reset()
	n.away.Store(false)
	return nil
}

// sentOn tells whether a node that is well refused a call for its slot alone.
func sentOn(err error) bool {
	return slices.ContainsFunc([]string{"MOVED", "ASK", "TRYAGAIN", unserved}, func(prefix string) bool {
		return redis.HasErrorPrefix(err, prefix)
	})
}

// callFor is a call like that of a check, on a key in n's slots; nil if none
// was found.
func (r *Redis) callFor(n *node) *call {
	plan := checkPlan
	rule := checkPlan.Sets[0].Rules[0]
	for i := range tries {
		rule.Subject = strconv.AppendInt([]byte("\xf5check"), int64(i), 10)
		slot := slotOf(appendKey(nil, r.begin, rule.Subject))
		if r.nodes.owners[slot].Load() != n {
			continue
		}
		plan.Sets = []Set{{Rules: []Rule{rule}}}
		c := new(call)
		c.pack(r.begin, &plan)
		c.slot = slot
		return c
	}
	return nil
}

// clearNodes removes the keys of all nodes.
func (r *Redis) clearNodes(ctx context.Context) error {
	if err := r.nodes.learn(ctx); err != nil {
		return err
	}
	return r.nodes.eachOwning(func(n *node) error { return r.clear(ctx, n.client) })
}
