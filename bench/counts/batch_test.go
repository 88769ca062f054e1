//go:build !race

package counts

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/bench/resp"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// gate makes script calls wait while it is shut.
type gate struct {
	shut    atomic.Bool
	arrived chan int // the decisions of a script call that waits
	leave   chan struct{}
}

// pass is called before each script call.
func (g *gate) pass(decisions int) {
	if g.shut.Load() {
		g.arrived <- decisions
		<-g.leave
	}
}

// batch counts the script call of several calls, and reports whether all of them shared
// it. They gather while the two script calls that may be under way at a time wait, and leave
// when the first of these returns; the other one must not return before, or it might wake a
// goroutine for nothing.
func (c *caller) batch(t *testing.T, r *reader, requests [][]byte) (n numbers, together bool) {
	var lone, running sync.WaitGroup
	begin := func(group *sync.WaitGroup, request []byte) {
		group.Go(func() {
			if err := c.call(request); err != nil {
				t.Error(err)
			}
		})
	}
	c.gate.shut.Store(true)
	for range 2 {
		begin(&lone, requests[0])
		<-c.gate.arrived
	}
	for _, request := range requests {
		begin(&running, request)
	}
	time.Sleep(3 * time.Millisecond)
	before := c.woken()
	c.gate.leave <- struct{}{}
	size := <-c.gate.arrived
	c.gate.shut.Store(false)
	c.gate.leave <- struct{}{}
	lone.Wait()
	n = r.during(func() {
		c.gate.leave <- struct{}{}
		running.Wait()
	}, len(requests))
	n[wakeups] = float64(c.woken()-before) / float64(len(requests))
	return n, size == len(requests)
}

// reader reads the counts of Redis.
type reader struct {
	t      *testing.T
	client *goredis.Client
	own    numbers // of reading itself
	read   int     // bytes of the replies so far
}

func newReader(t *testing.T, server *storetest.Server) *reader {
	r := &reader{t: t, client: server.Client()}
	t.Cleanup(func() { r.client.Close() })
	// Without waiting for the disk, Redis writes its log before it replies.
	for _, setting := range [][2]string{{"appendfsync", "no"}, {"appendonly", "yes"}} {
		if err := r.client.ConfigSet(t.Context(), setting[0], setting[1]).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for r.rewrites() { // else the size of the log jumps when it has been written
		time.Sleep(time.Millisecond)
	}
	r.during(func() {}, 1)
	r.own = r.during(func() {}, 1)
	return r
}

func (r *reader) rewrites() bool {
	text := r.client.Info(r.t.Context(), "persistence").Val()
	return strings.Contains(text, "aof_rewrite_in_progress:1") || strings.Contains(text, "aof_rewrite_scheduled:1")
}

// during returns what happens in Redis during calls, per call.
func (r *reader) during(calls func(), n int) (diff numbers) {
	before := r.state()
	calls()
	after := r.state()
	for i := range diff {
		diff[i] = (after[i] - before[i] - r.own[i]) / float64(n)
	}
	return diff
}

// state returns the counts so far, without the bytes of its own replies, whose length
// differs.
func (r *reader) state() (n numbers) {
	text, err := r.client.Do(context.Background(), "INFO", "all").Text()
	if err != nil {
		r.t.Fatal(err)
	}
	s, replies := resp.ParseInfo(text), r.read
	r.read += len(fmt.Sprintf("$%d\r\n%s\r\n", len(text), text))
	for name, calls := range s.Commands {
		if name != "info" {
			n[commands] += float64(calls)
		}
	}
	n[keys], n[sent], n[received], n[logged] = float64(s.Changes), float64(s.In), float64(s.Out-int64(replies)), float64(s.Logged)
	return n
}
