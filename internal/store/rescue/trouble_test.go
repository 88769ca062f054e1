package rescue_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/redisconn"
	"github.com/koalagate/koalagate/internal/store/remote"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// troubled is a Redis under a load of the user koalagate, and its replica.
type troubled struct {
	t       *testing.T
	node    *storetest.Node
	replica *storetest.Node
	load    *load
}

// trouble is a state in which Redis cannot count.
type trouble struct {
	name   string
	begins func(*troubled)
	ends   func(*troubled)
	remedy string // part of the reported remedy
}

var troubles = []trouble{
	{
		"no permission", func(x *troubled) { x.grant("-evalsha", "-eval") },
		func(x *troubled) { x.grant("+evalsha", "+eval") }, "ACL SETUSER",
	},
	{
		"no permission within the script", func(x *troubled) { x.grant("-mget") },
		func(x *troubled) { x.grant("+mget") }, "ACL SETUSER",
	},
	{
		"other keys", func(x *troubled) { x.grant("resetkeys", "~other:*") },
		func(x *troubled) { x.grant("~*") }, "ACL SETUSER",
	},
	{
		"another password", func(x *troubled) { x.grant("resetpass", ">another"); x.hangUp() },
		func(x *troubled) { x.grant("resetpass", ">secret") }, "wrong user or password",
	},
	{
		"no such user", func(x *troubled) { x.node.MustDo("ACL", "DELUSER", "koalagate") },
		func(x *troubled) { x.grant("on", ">secret", "~*", "+@all") }, "wrong user or password",
	},
	{
		"out of memory", func(x *troubled) { x.set("maxmemory", "1") },
		func(x *troubled) { x.set("maxmemory", "0") }, "maxmemory",
	},
	{
		"a failing disk", func(x *troubled) {
			x.set("save", "3600 1000000")
			dump := filepath.Join(x.node.Dir, "dump.rdb")
			x.must(os.RemoveAll(dump)) // left by the replica's synchronization
			x.must(os.Mkdir(dump, 0o700))
			x.snapshot("err")
		},
		func(x *troubled) {
			x.must(os.Remove(filepath.Join(x.node.Dir, "dump.rdb")))
			x.snapshot("ok")
			x.set("save", "")
		}, "disk",
	},
	{
		"a replica that has lost its master", func(x *troubled) { x.node.MustDo("REPLICAOF", "127.0.0.1", "1") },
		func(x *troubled) { x.node.MustDo("REPLICAOF", "NO", "ONE") }, "it is a replica, which cannot count",
	},
	{
		"a replica that serves no stale data",
		func(x *troubled) {
			x.set("replica-serve-stale-data", "no")
			x.node.MustDo("REPLICAOF", "127.0.0.1", "1")
		},
		func(x *troubled) { x.node.MustDo("REPLICAOF", "NO", "ONE") }, "check the master",
	},
	{
		"demoted to a replica unannounced", func(x *troubled) {
			x.waitForReplica()
			x.replica.MustDo("REPLICAOF", "NO", "ONE")
			x.node.MustDo("REPLICAOF", "127.0.0.1", x.replica.Port())
		},
		func(x *troubled) {
			x.waitForSync(x.node)
			x.node.MustDo("REPLICAOF", "NO", "ONE")
			x.replica.MustDo("REPLICAOF", "127.0.0.1", x.node.Port())
			x.waitForSync(x.replica)
		}, "it is a replica, which cannot count",
	},
	{
		"too few replicas", func(x *troubled) { x.set("min-replicas-to-write", "2") },
		func(x *troubled) { x.set("min-replicas-to-write", "0") }, "min-replicas-to-write",
	},
	{
		"a script of another client", func(x *troubled) { x.loop() },
		func(x *troubled) { x.node.MustDo("SCRIPT", "KILL") }, "SCRIPT KILL",
	},
}

// TestTroublesUnderLoad puts Redis into each trouble under load. Each is reported
// with its remedy, every call is answered, and no limit is exceeded, because Redis
// still has its counters afterwards.
func TestTroublesUnderLoad(t *testing.T) {
	storetest.InWaysAtOnce(t, storetest.Ways(*long), troublesUnderLoad)
}

func troublesUnderLoad(t *testing.T, way storetest.Way) {
	x := &troubled{t: t}
	x.node = storetest.StartNode(t, goredis.Options{}, "--lua-time-limit", "100", "--repl-diskless-sync-delay", "0")
	x.replica = storetest.StartNode(t, goredis.Options{}, "--replicaof", "127.0.0.1", x.node.Port(), "--repl-diskless-sync-delay", "0")
	x.waitForSync(x.replica)
	x.grant("on", ">secret", "~*", "+@all")
	x.startLoad("koalagate:secret@", 5*envoyWaits, way)
	for range 5 {
		x.node.MustDo("SCRIPT", "FLUSH")
		x.load.back(t)
	}
	for _, c := range troubles {
		c.begins(x)
		x.waitUntilUnreachable(c.remedy)
		x.checkInProcess()
		c.ends(x)
		t.Logf("%s: back on Redis %v after its end", c.name, x.load.back(t).Round(time.Millisecond))
	}
	x.load.judge(t)
}

// TestRescueWhileRedisLoads kills Redis and starts it with so much data on its disk
// that it replies LOADING for a while. The counters of its snapshot count
// afterwards.
func TestRescueWhileRedisLoads(t *testing.T) {
	storetest.InWaysAtOnce(t, storetest.Ways(*long), rescueWhileRedisLoads)
}

func rescueWhileRedisLoads(t *testing.T, way storetest.Way) {
	x := &troubled{t: t}
	// Redis serves clients after every 16 kB that it loads. With the default of 2 MB
	// a slow machine would be silent for longer than the budget.
	x.node = storetest.StartNode(t, goredis.Options{}, "--key-load-delay", "10000", "--rdbcompression", "no", "--loading-process-events-interval-bytes", "16384")
	x.node.MustDo("EVAL", "for i = 1, 4000 do redis.call('SET', 'other:' .. i, string.rep('x', 8192)) end return 'OK'", 0)
	x.startLoad("", time.Second, way)
	x.node.MustDo("SAVE")
	x.node.Kill()
	x.waitUntilUnreachable("nothing listens there")
	x.node.Launch()
	storetest.Eventually(t, func() error {
		if !x.load.reported("it is reading its data") {
			return errors.New("no report that Redis is loading")
		}
		return nil
	})
	x.set("key-load-delay", "0") // else loading takes 40 s, longer than Await waits
	x.node.Await()
	t.Logf("back on Redis %v after it had loaded", x.load.back(t).Round(time.Millisecond))
	x.load.judge(t)
}

// TestRescueWhenRedisHasNoConnectionLeft limits the connections of Redis, which it
// reports to new connections only.
func TestRescueWhenRedisHasNoConnectionLeft(t *testing.T) {
	storetest.InWaysAtOnce(t, storetest.Ways(*long), rescueWhenRedisHasNoConnectionLeft)
}

func rescueWhenRedisHasNoConnectionLeft(t *testing.T, way storetest.Way) {
	x := &troubled{t: t}
	x.node = storetest.StartNode(t, goredis.Options{})
	x.grant("on", ">secret", "~*", "+@all")
	x.startLoad("koalagate:secret@", 5*envoyWaits, way)
	client := x.node.Client() // the connection that stays
	defer client.Close()
	ctx := context.Background()
	if err := client.ConfigSet(ctx, "maxclients", "1").Err(); err != nil {
		t.Fatal(err)
	}
	// Kill all other connections, whatever their user: one that has not
	// authenticated yet would stay, and answer every probe.
	if err := client.Do(ctx, "CLIENT", "KILL", "TYPE", "normal").Err(); err != nil {
		t.Fatal(err)
	}
	x.waitUntilUnreachable("maxclients")
	if err := client.ConfigSet(ctx, "maxclients", "1000").Err(); err != nil {
		t.Fatal(err)
	}
	t.Logf("back on Redis %v after it accepted connections", x.load.back(t).Round(time.Millisecond))
	x.load.judge(t)
}

// startLoad starts a load as a user. Calls have the deadlines of the load, probes
// the budget.
func (x *troubled) startLoad(user string, budget time.Duration, way storetest.Way) {
	x.t.Helper()
	o := redis.Options{URL: "redis://" + user + x.node.Address, Budget: budget}
	way.Set(&o)
	r, err := remote.Open(o)
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() {
		if err := r.Close(); err != nil {
			x.t.Error(err)
		}
	})
	x.load = startLoad(x.t, r)
}

// waitUntilUnreachable waits until Redis is reported unreachable with the remedy.
func (x *troubled) waitUntilUnreachable(remedy string) {
	x.t.Helper()
	storetest.Eventually(x.t, func() error {
		s := x.load.store.State()
		if got := redisconn.Remedy(s.Err); !s.Degraded || !strings.Contains(got, remedy) {
			return fmt.Errorf("degraded %v with %w, remedy %q; want one of %q", s.Degraded, s.Err, got, remedy)
		}
		return nil
	})
}

// checkInProcess checks that all calls are answered in process, and that refused
// subjects stay refused.
func (x *troubled) checkInProcess() {
	x.t.Helper()
	for _, s := range x.load.subjects {
		var a store.Answers
		if err := x.load.store.Evaluate(context.Background(), plan1(s), &a); err != nil || !a.Degraded || a.Sets[0].Decider < 0 {
			x.t.Errorf("%s, refused before: in process %v, answer %+v, %v; want a refusal in process", s, a.Degraded, a.Sets, err)
		}
	}
}

func (x *troubled) grant(rules ...any) {
	x.t.Helper()
	x.node.MustDo(append([]any{"ACL", "SETUSER", "koalagate"}, rules...)...)
}

func (x *troubled) set(setting, value string) {
	x.t.Helper()
	x.node.MustDo("CONFIG", "SET", setting, value)
}

func (x *troubled) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

// hangUp ends the connections of the load.
func (x *troubled) hangUp() { x.node.MustDo("CLIENT", "KILL", "USER", "koalagate") }

// snapshot makes Redis write a snapshot, and waits until its status is as given.
func (x *troubled) snapshot(status string) {
	x.t.Helper()
	storetest.Eventually(x.t, func() error {
		_, _ = x.node.Do("BGSAVE") // another may be running
		if state := fmt.Sprint(x.node.MustDo("INFO", "persistence")); !strings.Contains(state, "rdb_last_bgsave_status:"+status) {
			return errors.New(state)
		}
		return nil
	})
}

// waitForSync waits until a replica is connected to its master and synchronized.
func (x *troubled) waitForSync(replica *storetest.Node) {
	x.t.Helper()
	storetest.Eventually(x.t, func() error {
		if state := fmt.Sprint(replica.MustDo("INFO", "replication")); !strings.Contains(state, "master_link_status:up") {
			return errors.New(state)
		}
		return nil
	})
}

// waitForReplica waits until the replica has received all earlier writes.
func (x *troubled) waitForReplica() {
	x.t.Helper()
	storetest.Eventually(x.t, func() error {
		if n := x.node.MustDo("WAIT", 1, 1000); n != int64(1) {
			return fmt.Errorf("%v replicas follow", n)
		}
		return nil
	})
}

// loop runs a script in Redis that does not end until SCRIPT KILL.
func (x *troubled) loop() {
	o := x.node.Client().Options()
	o.ReadTimeout = -1
	client := goredis.NewClient(o)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = client.Eval(context.Background(), "while true do end", nil).Err() // fails when it is killed
	}()
	x.t.Cleanup(func() {
		_, _ = x.node.Do("SCRIPT", "KILL") // in case the test failed earlier
		<-ended
		_ = client.Close() // its error changes nothing
	})
}
