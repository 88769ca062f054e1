package redisconn

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
)

// TestRemedyForEachReply checks that each error reply of Redis has its remedy.
func TestRemedyForEachReply(t *testing.T) {
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
			t.Errorf("%s: %q; want a remedy with %q", c.reply, got, c.want)
		}
	}
	if got := Remedy(fmt.Errorf("redis: evaluate: %w", ErrQueueFull)); !strings.Contains(got, "SLOWLOG") {
		t.Errorf("too many calls wait: %q; want a remedy with SLOWLOG", got)
	}
	if got := Remedy(fmt.Errorf("redis: dial: %w", syscall.EMFILE)); !strings.Contains(got, "ulimit -n") {
		t.Errorf("no free descriptor: %q", got)
	}
	if got := Remedy(fmt.Errorf("redis: evaluate: %w", io.EOF)); !strings.Contains(got, "rediss://") {
		t.Errorf("a cut connection, as by a Redis that requires TLS: %q; want a remedy with rediss://", got)
	}
	if got := Remedy(errors.New("something else")); got != "" {
		t.Errorf("an unknown error: %q; want no remedy", got)
	}
}

// replyError is an error reply as the client library returns it.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}
