package redis_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// faulty is a connection whose calls fail as at a deadline.
type faulty struct {
	net.Conn
	fails *atomic.Pointer[string] // "write", "cut", "read" or "wait"; "" for none
	waits chan struct{}           // gets an element per wait
	goOn  chan struct{}           // ends the waits
}

func (f *faulty) Write(b []byte) (int, error) {
	switch *f.fails.Load() {
	case "write":
		return 0, &net.OpError{Op: "write", Err: os.ErrDeadlineExceeded}
	case "cut":
		n, _ := f.Conn.Write(b[:len(b)-1])
		return n, &net.OpError{Op: "write", Err: os.ErrDeadlineExceeded}
	}
	return f.Conn.Write(b)
}

func (f *faulty) Read(b []byte) (int, error) {
	switch *f.fails.Load() {
	case "read":
		return 0, &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
	case "wait":
		f.waits <- struct{}{}
		<-f.goOn
	}
	return f.Conn.Read(b)
}

// openFaulty opens a store whose connections do as conns.
func openFaulty(t *testing.T, server *storetest.Server) (s *redis.Store, conns *faulty) {
	t.Helper()
	conns = &faulty{fails: new(atomic.Pointer[string]), waits: make(chan struct{}, 100), goOn: make(chan struct{})}
	conns.fails.Store(new(string))
	socket := strings.TrimPrefix(server.URL(), "unix://")
	client := goredis.NewClient(&goredis.Options{
		Addr: socket, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			if *conns.fails.Load() == "dial" {
				return nil, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
			}
			conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
			return &faulty{conn, conns.fails, conns.waits, conns.goOn}, err
		},
	})
	s, err := redis.Open(redis.Options{Client: client, Prefix: "unsent", Budget: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(); _ = client.Close() }) // a client of the test ends with it
	return s, conns
}

// TestLateCallsReportTheirResult checks that a call whose caller has left reports what
// Redis replied to it.
func TestLateCallsReportTheirResult(t *testing.T) {
	s, conns := openFaulty(t, storetest.StartServer(t))
	var a store.Answers
	if err := s.Evaluate(t.Context(), oneCount("u", 9), &a); err != nil {
		t.Fatal(err)
	}
	waits := "wait"
	conns.fails.Store(&waits)
	var first sync.WaitGroup
	first.Go(func() {
		var a store.Answers
		if err := s.Evaluate(t.Context(), oneCount("u", 9), &a); err != nil {
			t.Error(err)
		}
	})
	<-conns.waits // the next call waits for a batch of its own, and its caller leaves
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-conns.waits
		cancel()
	}()
	attempt, err := s.Try(ctx, oneCount("u", 9), new(store.Answers))
	if attempt.Late == nil {
		close(conns.goOn)
		t.Fatalf("the attempt is %+v, %v; want a late one", attempt, err)
	}
	if ended, err := attempt.Late.Result(oneCount("u", 9), &a); ended {
		t.Errorf("it ended before its reply, %v", err)
	}
	close(conns.goOn)
	first.Wait()
	storetest.Eventually(t, func() error {
		ended, err := attempt.Late.Result(oneCount("u", 9), &a)
		if !ended {
			return errors.New("it has not ended")
		}
		if err != nil || a.Sets[0].Decider >= 0 || a.Sets[0].Remaining > 6 {
			t.Errorf("the result is %+v, %v; want an admission with at most 6 of 9 left", a.Sets, err)
		}
		return nil
	})
}

// TestUnsentCallsAreNotCountedByRedis checks that a failed call is reported as unsent
// exactly if Redis cannot have counted it.
func TestUnsentCallsAreNotCountedByRedis(t *testing.T) {
	server := storetest.StartServer(t)
	for i, c := range []struct {
		fails, text string
		unsent      bool
	}{
		{"dial", "no connection", true},
		{"write", "nothing is written", true},
		{"cut", "all but a byte is written", true},
		{"read", "the reply is lost", false},
	} {
		t.Run(c.text, func(t *testing.T) {
			s, conns := openFaulty(t, server)
			none := ""
			plan := oneCount(strconv.Itoa(i), 9)
			var a store.Answers
			if c.fails != "dial" { // it already has a connection
				plan.Op = store.Browse
				if err := s.Evaluate(t.Context(), plan, &a); err != nil {
					t.Fatal(err)
				}
				plan.Op = store.Take
			}
			conns.fails.Store(&c.fails)
			attempt, err := s.Try(t.Context(), plan, &a)
			if err == nil || attempt.Unsent != c.unsent {
				t.Errorf("unsent %v, %v; want %v with an error", attempt.Unsent, err, c.unsent)
			}
			conns.fails.Store(&none)
			plan.Op = store.Peek
			want := int64(1)
			if c.unsent {
				want = 0
			}
			storetest.Eventually(t, func() error { return s.Evaluate(t.Context(), plan, &a) })
			if a.Sets[0].Hits != want {
				t.Errorf("Redis counted %d hits; want %d", a.Sets[0].Hits, want)
			}
		})
	}
}
