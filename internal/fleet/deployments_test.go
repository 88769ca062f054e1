package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store/storetest"
)

// walk publishes, tries, goes back and prunes with two instances.
func walk(t *testing.T, r *Records) {
	t.Helper()
	var trial tried
	one, other := startInstance(t, r, func(o *MemberOptions) { o.Try = trial.try }), startInstance(t, r)
	livingInstances(t, r, 2)
	for limit := range 3 {
		everywhere(t, r, mustPropose(t, r, limit+1), one, other)
	}
	number := mustPropose(t, r, 4, func(p *Proposal) { p.Trial = &TrialOptions{Length: time.Hour, Then: "ask"} })
	eventually(t, "the trial", func() bool { return trial.Load() == number })
	if err := one.WriteTally(t.Context(), &Tally{Number: number, Requests: 1, Report: []byte("{}")}); err != nil {
		t.Error(err)
	}
	if got := lastTrial(t, r); got.State != "running" || len(got.Reports) != 1 {
		t.Errorf("%+v", got)
	}
	if stopped, err := r.StopTrial(t.Context(), "enough"); !stopped || err != nil {
		t.Errorf("%v, %v", stopped, err)
	}
	everywhere(t, r, mustPropose(t, r, 1), one, other) // a rollback: the content is known
	eventually(t, "two versions are kept", func() bool {
		list, err := r.Versions(t.Context())
		return err == nil && len(list) == 2 && list[0].InForce && list[1].Problem == ""
	})
	late := startInstance(t, r)
	everywhere(t, r, one.version(), late)
	for _, i := range []*instance{one, other, late} {
		i.stop() // it leaves, so that nobody waits for it
	}
}

func keepTwo(o *Options) { o.Keep = 2 }

func TestCluster(t *testing.T) {
	t.Parallel()
	c := storetest.StartCluster(t, 3, false)
	r := openRecords(t, c.URL(), keepTwo)
	walk(t, r)

	// The slot moves to another node while versions are published.
	one := startInstance(t, r)
	livingInstances(t, r, 1)
	client := c.Nodes[0].Client()
	defer client.Close()
	slot, err := client.ClusterKeySlot(t.Context(), r.keys.head).Result()
	if err != nil {
		t.Fatal(err)
	}
	owner := c.Owner(int(slot))
	to := c.Nodes[0]
	if to == owner {
		to = c.Nodes[1]
	}
	c.Move(int(slot), to, nil)
	everywhere(t, r, mustPropose(t, r, 7), one)

	// Only the clock and the memory of the node with the records count.
	for _, n := range c.Nodes {
		n.MustDo("CONFIG", "SET", "maxmemory", "100mb")
	}
	storetest.Eventually(t, func() error { return asksOnly(t, r, c, to) }) // until its client has learned of the move
	for _, n := range c.Nodes {
		if n != to {
			n.MustDo("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
		}
	}
	if err := r.checkPolicy(t.Context()); err != nil {
		t.Errorf("the policy of other nodes: %v", err)
	}
	to.MustDo("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	if err := r.checkPolicy(t.Context()); err == nil {
		t.Error("the policy of the node was accepted")
	}
}

// asksOnly returns an error if another node than this one is asked for the time, or for the
// state of the fleet.
func asksOnly(t *testing.T, r *Records, c *storetest.Cluster, only *storetest.Node) error {
	t.Helper()
	for _, n := range c.Nodes {
		n.MustDo("CONFIG", "RESETSTAT")
	}
	for range 10 {
		if _, err := r.State(t.Context()); err != nil {
			return err
		}
		if err := r.checkPolicy(t.Context()); err != nil {
			return err
		}
	}
	for _, n := range c.Nodes {
		if stats := fmt.Sprint(n.MustDo("INFO", "commandstats")); n != only && (strings.Contains(stats, "cmdstat_time:") || strings.Contains(stats, "cmdstat_evalsha:")) {
			return fmt.Errorf("a node without the records was asked: %s", stats)
		}
	}
	return nil
}

// A master that fails loses nothing that its replicas have, and publishing goes on with
// the next one.
func TestSentinel(t *testing.T) {
	t.Parallel()
	w := storetest.StartSentinels(t, 3, 2, "")
	r := openRecords(t, w.URL(), keepTwo)
	walk(t, r)
	one := startInstance(t, r)
	livingInstances(t, r, 1)
	number := mustPropose(t, r, 7)
	everywhere(t, r, number, one)
	for _, n := range w.Replicas {
		storetest.Eventually(t, func() error {
			got, err := n.Do("HGET", r.keys.head, "in_force")
			if err == nil && fmt.Sprint(got) != numberText(number) {
				err = fmt.Errorf("a replica has version %v in force", got)
			}
			return err
		})
	}
	w.Master.Kill()
	next := mustPropose(t, r, 8)
	if next <= number {
		t.Errorf("the number %d was used before", next)
	}
	everywhere(t, r, next, one)
}

// A Redis that does not answer, or that comes back empty, in the middle of a publish
// changes nothing: see also TestRedisReplacedAtEveryStep.
func TestRedisAwayWhilePublishing(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t)
	r := openRecords(t, server.URL())
	one, other := startInstance(t, r), startInstance(t, r)
	livingInstances(t, r, 2)
	everywhere(t, r, mustPropose(t, r, 1), one, other)
	server.Pause()
	eventually(t, "it says so", func() bool { return strings.Contains(one.State().LastError, "Redis does not answer") })
	if err := send(t.Context(), r, 2); err == nil || !strings.Contains(err.Error(), "Redis does not answer") {
		t.Errorf("published without Redis: %v", err)
	}
	for _, i := range []*instance{one, other} {
		if s := i.State(); s.Unready != "" || i.version() != 1 {
			t.Errorf("version %d, %+v", i.version(), s)
		}
	}
	server.Resume()
	everywhere(t, r, 1, one, other)
	livingInstances(t, r, 2)
	everywhere(t, r, mustPropose(t, r, 3), one, other)
}

// After a loss of data a number may stand for another record. An instance that has loaded
// the former one does not mistake it for the other.
func TestNumberOfALostVersion(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t)
	client := server.Client()
	defer client.Close()
	r := openRecords(t, server.URL())
	i := startInstance(t, r)
	livingInstances(t, r, 1)
	everywhere(t, r, mustPropose(t, r, 1), i)
	// An instance that never answers keeps the proposal waiting.
	if err := client.ZAdd(t.Context(), r.keys.instances, goredis.Z{Score: float64(time.Now().Add(2900 * time.Millisecond).UnixMilli()), Member: "silent"}).Err(); err != nil {
		t.Fatal(err)
	}
	number := mustPropose(t, r, 20)
	eventually(t, "it is ready", func() bool {
		o, err := r.Outcome(t.Context(), number)
		return err == nil && len(o.Ready) == 1
	})
	m, contents := bundle(30)
	m.Number, m.Before, m.Prefix = number, 1, prefix
	text, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	value := record(text, "")
	pipe := client.TxPipeline()
	pipe.FlushAll(t.Context())
	for sum, content := range contents {
		pipe.HSet(t.Context(), r.keys.blob(sum), "0", content)
	}
	pipe.Set(t.Context(), r.keys.version(number), value, 0)
	pipe.HSet(t.Context(), r.keys.head, "in_force", number, "last", number, "at", time.Now().UnixMilli(), "sum", numberText(number)+":"+sumOf(value))
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	everywhere(t, r, number, i)
	i.mu.Lock()
	defer i.mu.Unlock()
	if set := i.sets[len(i.sets)-1]; set.Rules[1].Count != 30 {
		t.Errorf("version %d counts to %d; want 30", number, set.Rules[1].Count)
	}
}

// largest is the largest number of bytes in one command of a client.
type largest struct{ atomic.Int64 }

func (l *largest) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (l *largest) note(list ...goredis.Cmder) {
	for _, c := range list {
		size := int64(0)
		for _, a := range c.Args() {
			switch text := a.(type) {
			case string:
				size += int64(len(text))
			case []byte:
				size += int64(len(text))
			}
		}
		if s, isAny := c.(*goredis.Cmd); isAny {
			text, _ := s.Text() // "" for replies of other types
			size = max(size, int64(len(text)))
		}
		if s, isText := c.(*goredis.StringCmd); isText {
			size = max(size, int64(len(s.Val())))
		}
		l.Store(max(l.Load(), size))
	}
}

func (l *largest) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, c goredis.Cmder) error {
		defer l.note(c)
		return next(ctx, c)
	}
}

func (l *largest) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, list []goredis.Cmder) error {
		defer l.note(list...)
		return next(ctx, list)
	}
}

// A content of 50 MB is sent and read in pieces of at most 256 kB, so that decisions go on.
func TestLargeContent(t *testing.T) {
	server := storetest.StartServer(t)
	r := openRecords(t, server.URL(), func(o *Options) { o.MaxVersionBytes = 64 << 20 })
	var most largest
	r.client.AddHook(&most)
	content := make([]byte, 50<<20)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(content) // never fails
	b := BlobOf(content)
	if err := r.WriteBlob(t.Context(), b, bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	got, err := r.ReadBlob(t.Context(), b)
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v; want those that were written", len(got), err)
	}
	if size := most.Load(); size > pieceSize+1024 || size < pieceSize {
		t.Errorf("the largest command or reply has %d bytes; want %d", size, pieceSize)
	}
	// One byte more than an instance accepts is refused before it is read.
	small := openRecords(t, server.URL(), func(o *Options) { o.MaxVersionBytes = b.Size - 1 })
	var read largest
	small.client.AddHook(&read)
	if _, err := small.ReadBlob(t.Context(), b); err == nil || read.Load() != 0 {
		t.Errorf("%v after %d bytes; want a refusal", err, read.Load())
	}
}

// The commands that docs/publishing.md and docs/redis.md list are enough.
func TestPermissions(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t)
	admin := server.Client()
	defer admin.Close()
	grants := []any{
		"ACL", "SETUSER", "koalagate", "on", ">secret", "~" + prefix + ":*", "+evalsha", "+eval", "+time",
		"+getrange", "+hstrlen", "+exists", "+rename", "+persist", "+pttl", "+pexpire", "+pexpireat", "+set", "+del",
		"+hset", "+hget", "+hmget", "+hgetall", "+hexists", "+hdel", "+zadd", "+zrem", "+zrange", "+zrevrange", "+zrangebyscore",
		"+hscan", "+hlen", "+multi", "+exec", "+info",
	}
	if err := admin.Do(t.Context(), grants...).Err(); err != nil {
		t.Fatal(err)
	}
	named := func(o *Options) { o.Redis.Username, o.Redis.Password = "koalagate", "secret" }
	walk(t, openRecords(t, server.URL(), keepTwo, named))
	p := newPublisher(t, server)
	p.r = openRecords(t, server.URL(), named, func(o *Options) { o.PublicKey = p.key.Public().(PublicKey) })
	i := startInstance(t, p.r)
	livingInstances(t, p.r, 1)
	p.publish(t, 7, i)
	if err := admin.Del(t.Context(), p.r.keys.head, p.r.keys.history, p.r.keys.version(i.version())).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the version is in the history again", func() bool {
		list, err := p.r.Versions(t.Context())
		return err == nil && len(list) == 1
	})
	log, err := admin.Do(t.Context(), "ACL", "LOG").Slice()
	for _, one := range log {
		if text := fmt.Sprint(one); err == nil && !strings.Contains(text, "hello") {
			err = errors.New(text)
		}
	}
	if err != nil {
		t.Errorf("a command was refused: %v", err)
	}
}
