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

// troubled is a Redis that gets into trouble, under a load that asks it for the
// user koalagate, and a replica of it.
type troubled struct {
	t       *testing.T
	node    *storetest.Node
	replica *storetest.Node
	load    *load
}

// trouble is what a Redis may get into.
type trouble struct {
	name   string
	begins func(*troubled)
	ends   func(*troubled)
	remedy string // what is told to do about it
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
		"no room", func(x *troubled) { x.set("maxmemory", "1") },
		func(x *troubled) { x.set("maxmemory", "0") }, "maxmemory",
	},
	{
		"a disk that takes nothing", func(x *troubled) {
			x.set("save", "3600 1000000")
			dump := filepath.Join(x.node.Dir, "dump.rdb")
			x.must(os.RemoveAll(dump)) // the replica got it from there
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
		"a replica that has lost its master and knows it",
		func(x *troubled) {
			x.set("replica-serve-stale-data", "no")
			x.node.MustDo("REPLICAOF", "127.0.0.1", "1")
		},
		func(x *troubled) { x.node.MustDo("REPLICAOF", "NO", "ONE") }, "check the master",
	},
	{
		"another is the master, and nobody has said so", func(x *troubled) {
			x.isFollowed()
			x.replica.MustDo("REPLICAOF", "NO", "ONE")
			x.node.MustDo("REPLICAOF", "127.0.0.1", x.replica.Port())
		},
		func(x *troubled) {
			x.follows(x.node)
			x.node.MustDo("REPLICAOF", "NO", "ONE")
			x.replica.MustDo("REPLICAOF", "127.0.0.1", x.node.Port())
			x.follows(x.replica)
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

// Redis gets into each trouble while it is asked: each has its remedy, every
// caller an answer, and no limit is passed, since Redis still has its counters
// afterwards.
func TestTroubleInTheMiddle(t *testing.T) {
	storetest.InWaysAtOnce(t, storetest.Ways(*long), troubleInTheMiddle)
}

func troubleInTheMiddle(t *testing.T, way storetest.Way) {
	x := &troubled{t: t}
	x.node = storetest.StartNode(t, goredis.Options{}, "--lua-time-limit", "100", "--repl-diskless-sync-delay", "0")
	x.replica = storetest.StartNode(t, goredis.Options{}, "--replicaof", "127.0.0.1", x.node.Port(), "--repl-diskless-sync-delay", "0")
	x.follows(x.replica)
	x.grant("on", ">secret", "~*", "+@all")
	x.startLoad("koalagate:secret@", 5*envoyWaits, way)
	for range 5 {
		x.node.MustDo("SCRIPT", "FLUSH")
		x.load.back(t)
	}
	for _, c := range troubles {
		c.begins(x)
		x.isAwayWith(c.remedy)
		x.standsIn()
		c.ends(x)
		t.Logf("%s: back on Redis %v after its end", c.name, x.load.back(t).Round(time.Millisecond))
	}
	x.load.judge(t)
}

// Redis is killed and starts with so much on its disk that it answers LOADING
// for a while. What was in its snapshot counts afterwards.
func TestRedisThatLoads(t *testing.T) {
	storetest.InWaysAtOnce(t, storetest.Ways(*long), redisThatLoads)
}

func redisThatLoads(t *testing.T, way storetest.Way) {
	x := &troubled{t: t}
	// It looks after its clients after each pair of keys: after 2 MB, as it does by
	// itself, a slow machine would be silent for longer than a budget.
	x.node = storetest.StartNode(t, goredis.Options{}, "--key-load-delay", "10000", "--rdbcompression", "no", "--loading-process-events-interval-bytes", "16384")
	x.node.MustDo("EVAL", "for i = 1, 4000 do redis.call('SET', 'other:' .. i, string.rep('x', 8192)) end return 'OK'", 0)
	x.startLoad("", time.Second, way)
	x.node.MustDo("SAVE")
	x.node.Kill()
	x.isAwayWith("nothing listens there")
	x.node.Launch()
	storetest.Eventually(t, func() error {
		if !x.load.wasToldOf("it is reading its data") {
			return errors.New("nobody was told that Redis is loading")
		}
		return nil
	})
	x.set("key-load-delay", "0") // it would take 40 s, longer than the wait for it
	x.node.Await()
	t.Logf("back on Redis %v after it had loaded", x.load.back(t).Round(time.Millisecond))
	x.load.judge(t)
}

// A Redis that has no connection left says so to new ones alone.
func TestRedisWithoutConnections(t *testing.T) {
	storetest.InWaysAtOnce(t, storetest.Ways(*long), redisWithoutConnections)
}

func redisWithoutConnections(t *testing.T, way storetest.Way) {
	x := &troubled{t: t}
	x.node = storetest.StartNode(t, goredis.Options{})
	x.grant("on", ">secret", "~*", "+@all")
	x.startLoad("koalagate:secret@", 5*envoyWaits, way)
	client := x.node.Client() // one that stays
	defer client.Close()
	ctx := context.Background()
	if err := client.ConfigSet(ctx, "maxclients", "1").Err(); err != nil {
		t.Fatal(err)
	}
	// All but this one: a connection that has not said yet whose it is would stay,
	// and answer every look for Redis.
	if err := client.Do(ctx, "CLIENT", "KILL", "TYPE", "normal").Err(); err != nil {
		t.Fatal(err)
	}
	x.isAwayWith("maxclients")
	if err := client.ConfigSet(ctx, "maxclients", "1000").Err(); err != nil {
		t.Fatal(err)
	}
	t.Logf("back on Redis %v after it had room", x.load.back(t).Round(time.Millisecond))
	x.load.judge(t)
}

// startLoad has Redis asked for a user. Calls have the deadlines of the load,
// probes the budget.
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

// isAwayWith waits until Redis is found away with what is to be done about it.
func (x *troubled) isAwayWith(remedy string) {
	x.t.Helper()
	storetest.Eventually(x.t, func() error {
		s := x.load.store.State()
		if got := redisconn.Remedy(s.Err); !s.Degraded || !strings.Contains(got, remedy) {
			return fmt.Errorf("degraded %v with %w, remedy %q; want one of %q", s.Degraded, s.Err, got, remedy)
		}
		return nil
	})
}

// standsIn looks that all are answered in process, and that who was refused
// stays so.
func (x *troubled) standsIn() {
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

// snapshot has Redis write one, and waits until that has ended so.
func (x *troubled) snapshot(status string) {
	x.t.Helper()
	storetest.Eventually(x.t, func() error {
		_, _ = x.node.Do("BGSAVE") // one may be under way
		if state := fmt.Sprint(x.node.MustDo("INFO", "persistence")); !strings.Contains(state, "rdb_last_bgsave_status:"+status) {
			return errors.New(state)
		}
		return nil
	})
}

// follows waits until a replica has all that its master has.
func (x *troubled) follows(replica *storetest.Node) {
	x.t.Helper()
	storetest.Eventually(x.t, func() error {
		if state := fmt.Sprint(replica.MustDo("INFO", "replication")); !strings.Contains(state, "master_link_status:up") {
			return errors.New(state)
		}
		return nil
	})
}

// isFollowed waits until the replica has all that was written before.
func (x *troubled) isFollowed() {
	x.t.Helper()
	storetest.Eventually(x.t, func() error {
		if n := x.node.MustDo("WAIT", 1, 1000); n != int64(1) {
			return fmt.Errorf("%v replicas follow", n)
		}
		return nil
	})
}

// loop has Redis carry out a script that never ends, until SCRIPT KILL.
func (x *troubled) loop() {
	o := x.node.Client().Options()
	o.ReadTimeout = -1
	client := goredis.NewClient(o)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = client.Eval(context.Background(), "while true do end", nil).Err() // that it was killed
	}()
	x.t.Cleanup(func() {
		_, _ = x.node.Do("SCRIPT", "KILL") // where the test has failed before
		<-ended
		_ = client.Close() // as above
	})
}
