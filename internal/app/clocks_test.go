package app

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/redisconn"
	"github.com/koalagate/koalagate/internal/store/remote"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// Jumps are logged once. Clocks that drift or are merely wrong are not logged.
func TestJumpsOfClocksAreLogged(t *testing.T) {
	begin := time.Now()
	for _, c := range []struct {
		name string
		off  []time.Duration // what the clock is off, ten seconds after the other
		want []string
	}{
		{"a right clock", []time.Duration{0, 0, 0}, nil},
		{"a wrong clock", []time.Duration{time.Hour, time.Hour, time.Hour}, nil},
		{"a clock that drifts", []time.Duration{0, 900 * time.Millisecond, 1800 * time.Millisecond, 2700 * time.Millisecond}, nil},
		{"forward", []time.Duration{0, time.Hour, time.Hour}, []string{"by=1h0m0s", "are closed"}},
		{"back", []time.Duration{0, -90 * time.Second, -90 * time.Second}, []string{"by=-1m30s", "for as much longer"}},
		{"there and back", []time.Duration{0, time.Minute, 0}, []string{"by=1m0s", "are closed", "by=-1m0s", "for as much longer"}},
	} {
		log := new(bytes.Buffer)
		w := newClockWatch(slog.New(slog.NewTextHandler(log, nil)), begin, nil)
		for i, off := range c.off {
			passed := time.Duration(i) * clockInterval
			w.record("Redis", begin.Add(passed+off), passed)
			w.record(machineClock, begin.Add(passed), passed) // another, which is right
		}
		rest := log.String()
		for _, want := range c.want {
			_, after, found := strings.Cut(rest, want)
			if !found {
				t.Errorf("%s: the log has no %q:\n%s", c.name, want, log)
			}
			rest = after
		}
		if lines := strings.Count(log.String(), "\n"); lines != len(c.want)/2 || strings.Contains(log.String(), machineClock) {
			t.Errorf("%s: %d lines:\n%s", c.name, lines, log)
		}
	}
}

// The clock of a real Redis is read. Another server under the same name may have
// another clock.
func TestJumpOfTheClockOfRedisIsLogged(t *testing.T) {
	server := storetest.StartServer(t)
	r, err := remote.Open(redis.Options{URL: server.URL(), Budget: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	log := new(bytes.Buffer)
	w := newClockWatch(slog.New(slog.NewTextHandler(log, nil)), time.Now(), nil)
	w.bases["Redis"] = time.Duration(w.begin.Add(-time.Hour).UnixNano()) // as if it had been an hour behind
	for begin := time.Now(); log.Len() == 0; {                           // a slow machine makes readings imprecise
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("no reading of the clock of Redis was precise within %v", 20*time.Second)
		}
		w.readRedis(context.Background(), r)
	}
	if text := log.String(); !strings.Contains(text, "clock=Redis by=1h0m0") && !strings.Contains(text, "clock=Redis by=59m59") {
		t.Errorf("the log does not report the hour:\n%s", text)
	}
	log.Reset()
	server.Kill()
	w.readRedis(context.Background(), r)
	if log.Len() > 0 {
		t.Errorf("the clock of an unreachable Redis:\n%s", log)
	}
	stop := background(func(ctx context.Context) { newClockWatch(slog.New(slog.DiscardHandler), time.Now(), nil).run(ctx, r) })
	stop()
}

// A node of a Cluster whose clock cannot be read is logged; the clocks of the other
// nodes are read nevertheless.
func TestUnreadableClockOfANodeIsLogged(t *testing.T) {
	log := new(bytes.Buffer)
	w := newClockWatch(slog.New(slog.NewTextHandler(log, nil)), time.Now(), nil)
	silent := errors.New("node 127.0.0.1:7002: it says nothing")
	for off := range 2 {
		now := time.Now()
		w.recordAll([]redisconn.Clock{{Server: "127.0.0.1:7001", Shows: now.Add(time.Duration(off) * time.Hour), At: now}}, silent)
	}
	for _, want := range []string{"127.0.0.1:7002: it says nothing", `clock="Redis at 127.0.0.1:7001" by=1h0m0s`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q:\n%s", want, log)
		}
	}
}
