package store

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// checkPlan counts on a key of its own, and so asks of Redis all that other
// plans do. No identity begins with its first byte.
var checkPlan = Plan{Op: Update, Zone: time.UTC, Sets: []Set{{Rules: []Rule{
	{Subject: []byte("\xf5check"), Method: Count, Weight: 1, Time: 1, Count: 1},
}}}}

// Check tells whether Redis is there and can count: it takes a connection, the
// script and all that the script calls. An error says what is in the way. It
// takes a budget at most; of a Cluster, whose nodes have one each, about two.
func (r *Redis) Check(ctx context.Context) error {
	err := r.check(ctx)
	if err != nil {
		return fmt.Errorf("redis: check: %w", err)
	}
	return nil
}

func (r *Redis) check(ctx context.Context) error {
	if r.nodes != nil {
		return r.checkNodes(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, r.budget+margin) // a budget is for a call alone
	defer cancel()
	client, ok := r.client.(*redis.Client)
	if !ok {
		return r.countCheck(ctx)
	}
	if err := knock(ctx, client); err != nil {
		return err
	}
	return turnedAway(ctx, client, r.countCheck(ctx))
}

// countCheck carries out checkPlan beside all other calls.
func (r *Redis) countCheck(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.budget)
	defer cancel()
	c := new(call)
	c.pack(r.begin, &checkPlan)
	if err := r.batches.ask(ctx, c); err != nil {
		return fmt.Errorf("redis: evaluate: %w", err)
	}
	return nil
}

// knock connects outside of the pool and hangs up. After as many failed dials
// as it has connections the pool dials by itself, once a second, and fails
// every call until then: Redis would be found back a second late.
func knock(ctx context.Context, client *redis.Client) error {
	o := client.Options()
	connection, err := o.Dialer(ctx, o.Network, o.Addr)
	if err != nil {
		return err
	}
	return connection.Close()
}

// farewellWait is how long a server has to say why it hangs up: it does so
// before it is asked anything.
const farewellWait = 20 * time.Millisecond

// saying is an error of Redis that came by another way than as a reply.
type saying string

func (s saying) Error() string { return string(s) }

// RedisError makes it a reply of Redis.
func (saying) RedisError() {}

// turnedAway is err, or what Redis says to a new connection before it is cut:
// that it has none left. The client meets that with a password, and then knows
// only that it was cut.
func turnedAway(ctx context.Context, client *redis.Client, err error) error {
	if err == nil || !cut(err) {
		return err
	}
	o := client.Options()
	connection, dialed := o.Dialer(ctx, o.Network, o.Addr)
	if dialed != nil {
		return dialed
	}
	defer connection.Close()
	if late := connection.SetReadDeadline(time.Now().Add(farewellWait)); late != nil {
		return err
	}
	// A Redis that takes the connection says nothing, and then err holds.
	said, _ := bufio.NewReaderSize(connection, 256).ReadSlice('\n')
	if text, is := bytes.CutPrefix(bytes.TrimSpace(said), []byte("-")); is {
		return saying(text)
	}
	return err
}
