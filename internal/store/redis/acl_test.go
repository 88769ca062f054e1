package redis_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/redisconn"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// grants are the permissions that counting needs, as docs/redis.md lists them.
var grants = []string{"+evalsha", "+eval", "+time", "+mget", "+set", "+setrange", "+getrange", "+strlen", "+del", "+pexpire", "+hget", "+hset", "+hdel"}

// TestCountingNeedsExactlyTheDocumentedGrants counts as a user that has only the
// grants in docs/redis.md, and checks for each grant that counting fails without it.
func TestCountingNeedsExactlyTheDocumentedGrants(t *testing.T) {
	text, err := os.ReadFile("../../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	if line := "~koala:* " + strings.Join(grants, " "); !strings.Contains(string(text), line) {
		t.Errorf("docs/redis.md does not contain %q", line)
	}
	node := storetest.StartNode(t, goredis.Options{})
	grant := func(rules ...string) {
		command := []any{"ACL", "SETUSER", "koalagate", "reset", "on", ">secret", "~koala:*"}
		for _, r := range rules {
			command = append(command, r)
		}
		node.MustDo(command...)
		node.MustDo("SCRIPT", "FLUSH")
		node.MustDo("FLUSHALL")
	}
	grant(grants...)
	if err := countAll(node); err != nil {
		t.Errorf("with all grants: %v", err)
	}
	for i, g := range grants {
		grant(slices.Delete(slices.Clone(grants), i, i+1)...)
		err := countAll(node)
		if err == nil {
			t.Errorf("nothing fails without %s, so it is not needed", g)
			continue
		}
		if !strings.Contains(redisconn.Remedy(err), "ACL SETUSER") {
			t.Errorf("without %s: %v: the remedy is %q", g, err, redisconn.Remedy(err))
		}
	}
	grant(append([]string{"resetkeys", "~other:*"}, grants...)...)
	if err := countAll(node); err == nil || !strings.Contains(redisconn.Remedy(err), "ACL SETUSER") {
		t.Errorf("with the keys of another prefix: %v: the remedy is %q", err, redisconn.Remedy(err))
	}
}

// countAll uses every method and operation, a leak counter that needs a log, and a hold
// counter that needs leaves.
func countAll(node *storetest.Node) error {
	ctx := context.Background()
	r, err := redis.Open(redis.Options{URL: "redis://koalagate:secret@" + node.Address, Budget: time.Minute})
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.Check(ctx); err != nil {
		return err
	}
	var a store.Answers
	for i := range int64(200) {
		set := store.Set{Allows: true}
		for _, rule := range contested {
			rule.Subject, rule.Weight = []byte("ann"), 1
			if rule.Return == 7 { // below, alone, so that the refusal of another rule does not undo it
				continue
			}
			set.Rules = append(set.Rules, rule)
		}
		long := contested[6]
		long.Subject, long.Weight = []byte("bob"), 1
		for _, s := range []store.Set{set, {Allows: true, Rules: []store.Rule{long}}} {
			p := &store.Plan{Op: store.Take, Now: 1_793_505_600_000 + 60_000*i, Zone: time.UTC, Sets: []store.Set{s}}
			if err := r.Evaluate(ctx, p, &a); err != nil {
				return err
			}
		}
	}
	for i := range int64(202) { // holds that need leaves; half of them run out before the last
		held := store.Rule{Subject: []byte("bob"), Return: 9, Method: store.Hold, Time: 60, Count: 1000, Weight: 1}
		p := &store.Plan{Op: store.Take, Now: 1_793_505_600_000 + i + i/201*59_900, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{held}}}}
		if err := r.Evaluate(ctx, p, &a); err != nil {
			return err
		}
	}
	for _, op := range []store.Op{store.Refund, store.Reset} {
		long := contested[6]
		long.Subject, long.Weight = []byte("bob"), 1
		p := &store.Plan{Op: op, Now: 1_793_505_600_000 + 60_000*200, Zone: time.UTC, Sets: []store.Set{{Rules: []store.Rule{long}}}}
		if err := r.Evaluate(ctx, p, &a); err != nil {
			return fmt.Errorf("operation %d: %w", op, err)
		}
	}
	return nil
}
