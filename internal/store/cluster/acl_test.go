package cluster_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/cluster"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/redisconn"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// grants are the permissions that a user needs to count, as docs/redis.md lists
// them; clusterGrants are those that it needs in addition for a Cluster.
var grants = []string{"+evalsha", "+eval", "+time", "+mget", "+set", "+setrange", "+getrange", "+strlen", "+del", "+pexpire", "+hget", "+hset", "+hdel"}

var clusterGrants = []string{"+cluster|slots", "+asking"}

// TestClusterNeedsExactlyTheDocumentedGrants counts in a slot that moves between two
// nodes, as a user with the grants in docs/redis.md.
func TestClusterNeedsExactlyTheDocumentedGrants(t *testing.T) {
	text, err := os.ReadFile("../../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	line := "| `" + strings.ReplaceAll(strings.Join(clusterGrants, " "), "|", `\|`) + "` | a Cluster"
	if !strings.Contains(string(text), line) {
		t.Errorf("docs/redis.md does not contain %q", line)
	}
	c := storetest.StartCluster(t, 2, false)
	count := func(subject string, grants ...string) (err error) {
		command := []any{"ACL", "SETUSER", "koalagate", "reset", "on", ">secret", "~koala:*"}
		for _, g := range grants {
			command = append(command, g)
		}
		for _, n := range c.Nodes {
			n.MustDo(command...)
		}
		r, err := cluster.Open(redis.Options{URL: strings.Replace(c.URL(), "://", "://koalagate:secret@", 1), Budget: time.Minute})
		if err != nil {
			return err
		}
		defer r.Close()
		if err := r.Check(context.Background()); err != nil {
			return err
		}
		slot := cluster.SlotOf(cluster.Key("koala", subject))
		to := c.Nodes[0]
		if c.Owner(slot) == to {
			to = c.Nodes[1]
		}
		rule := store.Rule{Return: 1, Method: store.Count, Time: 60, Count: 20}
		rule.Subject, rule.Weight = []byte(subject), 1
		var took error
		c.Move(slot, to, func() { // at first the key does not exist, and the old node replies ASK
			var a store.Answers
			took = errors.Join(took, r.Evaluate(context.Background(), &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{rule}}}}, &a))
		})
		return took
	}
	all := slices.Concat(grants, clusterGrants)
	if err := count("ann", all...); err != nil {
		t.Errorf("with all grants: %v", err)
	}
	if c.Errors()["ASK"] == 0 {
		t.Error("no node replied ASK: the move tests nothing")
	}
	for i, g := range clusterGrants {
		err := count(g, slices.Delete(slices.Clone(all), len(grants)+i, len(grants)+i+1)...)
		if err == nil {
			t.Errorf("nothing fails without %s, so it is not needed", g)
			continue
		}
		if !strings.Contains(redisconn.Remedy(err), "ACL SETUSER") {
			t.Errorf("without %s: %v: the remedy is %q", g, err, redisconn.Remedy(err))
		}
	}
}
