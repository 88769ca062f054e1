package redisconn

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
)

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
	if got := Remedy(fmt.Errorf("redis: evaluate: %w", ErrQueueFull)); !strings.Contains(got, "SLOWLOG") {
		t.Errorf("too many calls wait: %q; want something with SLOWLOG", got)
	}
	if got := Remedy(fmt.Errorf("redis: dial: %w", syscall.EMFILE)); !strings.Contains(got, "ulimit -n") {
		t.Errorf("no free descriptor: %q", got)
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
