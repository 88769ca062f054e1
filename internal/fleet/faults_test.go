package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store/storetest"
)

// fault strikes at one command of a client. Without then, the client ends there as with
// kill -9: nothing that it sends later reaches Redis.
type fault struct {
	after bool   // the command reaches Redis, and its reply is lost
	then  func() // what happens instead of the end of the client
	left  atomic.Int64
	dead  atomic.Bool
	ended chan string // the name of the command
}

var errKilled = errors.New("killed")

func newFault(r *Records, after bool, then func()) *fault {
	f := &fault{after: after, then: then, ended: make(chan string, 1)}
	r.client.AddHook(f)
	return f
}

// arm makes the nth command from now on the one at which the fault strikes.
func (f *fault) arm(n int) { f.left.Store(int64(n)) }

func (f *fault) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (f *fault) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, c goredis.Cmder) error {
		return f.strike([]goredis.Cmder{c}, func() error { return next(ctx, c) })
	}
}

func (f *fault) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, list []goredis.Cmder) error {
		return f.strike(list, func() error { return next(ctx, list) })
	}
}

func (f *fault) strike(list []goredis.Cmder, run func() error) error {
	isNow := f.left.Load() > 0 && f.left.Add(-1) == 0
	if !isNow && !f.dead.Load() {
		return run()
	}
	if isNow {
		if f.then == nil {
			f.dead.Store(true)
		}
		if f.after {
			_ = run()
		}
		if f.then != nil {
			f.then()
		}
		f.ended <- list[0].Name()
	}
	for _, c := range list {
		c.SetErr(errKilled)
	}
	return errKilled
}

// atSteps runs a test with a fault before and after each of the first n commands, several
// at a time, each with keys of its own.
func atSteps(t *testing.T, n int, test func(t *testing.T, prefix string, step int, after bool)) {
	t.Helper()
	var group sync.WaitGroup
	room := make(chan struct{}, 12)
	for step := 1; step <= n; step++ {
		for _, after := range []bool{false, true} {
			room <- struct{}{}
			group.Go(func() {
				defer func() { <-room }()
				name := fmt.Sprintf("step %d, before %v", step, !after)
				t.Run(name, func(t *testing.T) { test(t, strings.NewReplacer(" ", "-", ",", "").Replace(name), step, after) })
			})
		}
	}
	group.Wait()
}

// mustPropose proposes a version with a limit.
func mustPropose(t *testing.T, r *Records, limit int, change ...func(*Proposal)) uint64 {
	t.Helper()
	m, contents := bundle(limit)
	return submit(t, r, m, contents, change...)
}

// bury makes a heartbeat as old as one of an instance that ended a while ago.
func bury(t *testing.T, r *Records, id string) {
	t.Helper()
	if err := r.client.ZAdd(t.Context(), r.keys.instances, goredis.Z{Score: 1, Member: id}).Err(); err != nil {
		t.Fatal(err)
	}
}

// everywhere waits until all instances decide by a version, and nothing is proposed.
func everywhere(t *testing.T, r *Records, number uint64, all ...*instance) {
	t.Helper()
	storetest.Eventually(t, func() error {
		for _, i := range all {
			if s := i.State(); i.version() != number || s.Unready != "" {
				return fmt.Errorf("an instance has version %d (%s); want %d", i.version(), s.Unready, number)
			}
		}
		s, err := r.State(t.Context())
		if err == nil && (s.Proposed != 0 || s.InForce != number) {
			err = fmt.Errorf("%+v; want version %d in force, and no proposal", s, number)
		}
		return err
	})
}

// An instance that is killed at any step of a publish leaves no half state: the others
// switch, and it starts with what is in force.
func TestInstanceKilledAtEveryStepOfAPublish(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t)
	atSteps(t, 12, func(t *testing.T, prefix string, step int, after bool) {
		open := func() *Records { return openRecords(t, server.URL(), func(o *Options) { o.Prefix = prefix }) }
		r, own, dir := open(), open(), t.TempDir()
		f := newFault(own, after, nil)
		survivor := startInstance(t, r)
		victim := startInstance(t, own, func(o *MemberOptions) { o.StateDir = dir })
		livingInstances(t, r, 2)
		everywhere(t, r, mustPropose(t, r, 1), survivor, victim)
		f.arm(step)
		number := mustPropose(t, r, 2)
		t.Logf("killed at %s", <-f.ended)
		bury(t, r, victim.id)
		everywhere(t, r, number, survivor)
		if v := victim.version(); v != 1 && v != number {
			t.Errorf("the killed instance had version %d", v)
		}
		victim.stop()
		again := startInstance(t, r, func(o *MemberOptions) { o.StateDir = dir })
		everywhere(t, r, number, survivor, again)
		bury(t, r, victim.id)
		everywhere(t, r, mustPropose(t, r, 3), survivor, again)
	})
}

// An instance that is killed at any step of a trial neither ends nor enforces it.
func TestInstanceKilledAtEveryStepOfATrial(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t)
	atSteps(t, 12, func(t *testing.T, prefix string, step int, after bool) {
		open := func() *Records { return openRecords(t, server.URL(), func(o *Options) { o.Prefix = prefix }) }
		r, own := open(), open()
		f := newFault(own, after, nil)
		var here, there tried
		survivor := startInstance(t, r, func(o *MemberOptions) { o.Try = here.try })
		victim := startInstance(t, own)
		livingInstances(t, r, 2)
		first := mustPropose(t, r, 1)
		everywhere(t, r, first, survivor, victim)
		f.arm(step)
		number := mustPropose(t, r, 2, func(p *Proposal) { p.Trial = &TrialOptions{Length: time.Hour, Then: "keep"} })
		t.Logf("killed at %s", <-f.ended)
		bury(t, r, victim.id)
		eventually(t, "the trial", func() bool { return here.Load() == number })
		victim.stop()
		again := startInstance(t, r, func(o *MemberOptions) { o.Try = there.try })
		eventually(t, "the trial at an instance that starts", func() bool { return there.Load() == number })
		everywhere(t, r, first, survivor, again)
		if stopped, err := r.StopTrial(t.Context(), "enough"); !stopped || err != nil {
			t.Errorf("%v, %v; want the trial stopped", stopped, err)
		}
		eventually(t, "the end of the trial", func() bool { return here.Load() == 0 && there.Load() == 0 })
	})
}

// send publishes as the API does: what Redis lacks, then the proposal, then its outcome.
func send(ctx context.Context, r *Records, limit int) error {
	m, contents := bundle(limit)
	now, err := r.Standing(ctx)
	if err != nil {
		return err
	}
	for _, b := range m.Blobs() {
		has, err := r.HasBlob(ctx, b)
		if err == nil && !has {
			err = r.WriteBlob(ctx, b, strings.NewReader(string(contents[b.Sum])))
		}
		if err != nil {
			return err
		}
	}
	m.Number, m.Before, m.Prefix, m.At = now.Last+1, now.InForce, r.o.Prefix, now.Now
	text, err := m.Encode()
	if err == nil {
		_, err = r.Propose(ctx, &Proposal{Manifest: text, Timeout: time.Minute})
	}
	for err == nil {
		_, err = r.Outcome(ctx, m.Number) // until the fault
	}
	return err
}

// A publisher that is killed at any step has published everything or nothing, and what it
// has sent expires.
func TestPublisherKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t)
	atSteps(t, 12, func(t *testing.T, prefix string, step int, after bool) {
		open := func() *Records { return openRecords(t, server.URL(), func(o *Options) { o.Prefix = prefix }) }
		r, own := open(), open()
		f := newFault(own, after, nil)
		one, other := startInstance(t, r), startInstance(t, r)
		livingInstances(t, r, 2)
		first := mustPropose(t, r, 1)
		everywhere(t, r, first, one, other)
		f.arm(step)
		if err := send(t.Context(), own, 2); !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		now, err := r.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("killed at %s: version %d", <-f.ended, now.Last)
		everywhere(t, r, now.Last, one, other) // the first, if the second was not proposed
		keys, err := r.client.Keys(t.Context(), r.keys.begin+"upload:*").Result()
		for _, key := range keys {
			if left := r.client.PTTL(t.Context(), key).Val(); left <= 0 || left > spareTime {
				t.Errorf("the upload %s expires in %v", key, left)
			}
		}
		if err != nil {
			t.Error(err)
		}
		everywhere(t, r, mustPropose(t, r, 3), one, other)
	})
}

// Redis loses everything at any step of a publish: the instances keep what they have, are
// ready, say so, and a version that is published again comes into force everywhere.
func TestRedisReplacedAtEveryStep(t *testing.T) {
	t.Parallel()
	atSteps(t, 10, func(t *testing.T, prefix string, step int, after bool) {
		server := storetest.StartServer(t)
		open := func() *Records { return openRecords(t, server.URL(), func(o *Options) { o.Prefix = prefix }) }
		r, own := open(), open()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f := newFault(own, after, func() {
			server.Kill()
			server.Start()
			cancel() // the fault may be at a command of the instance, not of the publisher
		})
		one, other := startInstance(t, r), startInstance(t, own)
		livingInstances(t, r, 2)
		everywhere(t, r, mustPropose(t, r, 1), one, other)
		f.arm(step)
		// The second instance is the publisher, too.
		if err := send(ctx, own, 2); err == nil {
			t.Fatal("it was published without a fault")
		}
		t.Logf("replaced at %s", <-f.ended)
		for _, i := range []*instance{one, other} {
			eventually(t, "it says so", func() bool { return strings.Contains(i.State().LastError, "flushed") })
			if s := i.State(); s.Unready != "" || i.version() != 1 && i.version() != 2 {
				t.Errorf("version %d, %+v", i.version(), s)
			}
		}
		number := restore(t, r, one)
		if number < 2 {
			t.Errorf("the number %d was used before", number)
		}
		everywhere(t, r, number, one, other)
	})
}
