package store

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// A breaker opens for what says that Redis is of no use, and for nothing less.
func TestBreaker(t *testing.T) {
	for _, c := range []struct {
		name  string
		calls string // a answered, f failed, A … Z failed by that round trip, a digit waits so many times 25 ms
		opens int    // after how many failures, 0 for never
	}{
		{"one failure", "aaafaaa", 0},
		{"three in a row", "afff", 3},
		{"three in a row, however slow", "f9f9f", 3},
		{"an answer ends the row", "ff9a9ff9a9ff", 0},
		{"half of the calls", "fafaf", 3},
		{"two of two are too few", "fa9ff", 0},
		{"less than half", "faaafaaafaaafaaaf", 0},
		{"half, but over more than 100 ms", "fa3fa3fa3fa3fa", 0},
		{"a span begins with a failure", "aaaaaaaaaafafaf", 3},
		{"a new span begins afresh", "faaaaaaaaaa9fafaf", 4},
		{"one round trip of many calls", "aaAAAAAAAAAA", 0},
		{"one round trip among answers", "AaAaAaAaA", 0},
		{"two that many share", "AAB", 3},
		{"two that many share, among many answers", "A1BaaaaAaaB", 0},
		{"three in a row that many share", "A9B9C", 3},
		{"two in a row with long pauses", "A3A9B", 0},
		{"one that hangs", "A5AA5A", 4},
		{"one that hangs, but for answers", "A5AaaA5AaaA5Aaa", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			now, failures := time.Unix(0, 0), 0
			b := breaker{now: func() time.Time { return now }}
			for _, what := range c.calls {
				switch what {
				case 'a':
					b.answered()
				case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
					now = now.Add(time.Duration(what-'0') * 25 * time.Millisecond)
				default:
					number := uint64(0)
					if what != 'f' {
						number = uint64(what)
					}
					failures++
					if opens := b.failed(number); opens != (failures == c.opens) {
						t.Fatalf("failure %d of %q: opens %v; want it to open with failure %d", failures, c.calls, opens, c.opens)
					}
				}
			}
		})
	}
}

func TestBreakerForgetsWithAReset(t *testing.T) {
	b := breaker{now: time.Now}
	for range 3 {
		if b.failed(0); b.failed(0) {
			t.Fatal("two failures after a reset open it")
		}
		b.reset()
	}
}

func TestGate(t *testing.T) {
	var g gate
	want := func(absences, share uint32) {
		t.Helper()
		if a, s := g.look(); a != absences || s != share {
			t.Fatalf("%d absences, %d calls of %d pass; want %d, %d", a, s, everyCall, absences, share)
		}
	}
	want(0, 0)
	g.open()
	want(0, everyCall)
	g.close()
	want(1, 0)
	if !g.widen(1, 2) {
		t.Error("it does not widen")
	}
	want(1, 2)
	g.close()
	want(2, 0)
	if g.widen(1, 4) {
		t.Error("it widens for somebody who has missed that it was closed")
	}
	want(2, 0)
}

// What Redis says that it cannot do is told with what to do about it.
func TestRemedyOfReplies(t *testing.T) {
	for _, c := range []struct{ reply, want string }{
		{"NOREPLICAS Not enough good replicas to write.", "min-replicas-to-write"},
		{"LOADING Redis is loading the dataset in memory", "reading its data"},
		{"READONLY You can't write against a read only replica.", "master"},
		{"WRONGPASS invalid username-password pair or user is disabled.", "password"},
		{"NOAUTH Authentication required.", "wants a password"},
		{"NOPERM User default has no permissions to run the 'time' command", "ACL SETUSER"},
		{"OOM command not allowed when used memory > 'maxmemory'.", "maxmemory"},
		{"BUSY Redis is busy running a script.", "SCRIPT KILL"},
		{"MISCONF Redis is configured to save RDB snapshots", "disk"},
		{"ERR max number of clients reached", "maxclients"},
		{"ERR DB index is out of range", "database"},
		{"ERR unknown command 'EVALSHA'", "6.2"},
	} {
		if got := Remedy(fmt.Errorf("redis: evaluate: %w", replyError(c.reply))); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q; want something with %q", c.reply, got, c.want)
		}
	}
	if got := Remedy(fmt.Errorf("redis: evaluate: %w", errWaiting)); !strings.Contains(got, "SLOWLOG") {
		t.Errorf("too many calls wait: %q; want something with SLOWLOG", got)
	}
	if got := Remedy(fmt.Errorf("redis: evaluate: %w", io.EOF)); !strings.Contains(got, "rediss://") {
		t.Errorf("a connection that is cut, as by a Redis that wants TLS: %q; want something with rediss://", got)
	}
	if got := Remedy(errors.New("something else")); got != "" {
		t.Errorf("an error that nobody knows: %q; want nothing", got)
	}
}

// replyError is an error reply as the client makes one.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}
