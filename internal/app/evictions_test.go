package app

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/redisconn"
	"github.com/koalagate/koalagate/internal/store/remote"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// Evictions since the last reading are logged and counted; those before the start, of
// unknown number or before a restart of Redis are not.
func TestEvictionsAreLoggedAndCounted(t *testing.T) {
	for name, c := range map[string]struct {
		readings []int64
		keys     int64
		lines    int
	}{
		"none":                {[]int64{0, 0}, 0, 0},
		"before the start":    {[]int64{7, 7}, 0, 0},
		"some":                {[]int64{7, 10, 10, 12}, 5, 2},
		"after a restart":     {[]int64{7, 0, 2}, 2, 1},
		"not reported":        {[]int64{-1, -1}, 0, 0},
		"not reported a time": {[]int64{7, -1, 8}, 1, 1},
	} {
		log, keys := new(bytes.Buffer), int64(0)
		w := newClockWatch(slog.New(slog.NewTextHandler(log, nil)), time.Now(), func(n int64) { keys += n })
		for _, evicted := range c.readings {
			w.recordAll([]redisconn.Clock{{Shows: w.begin, At: w.begin, Evicted: evicted}, {Server: "another", Shows: w.begin, At: w.begin}}, nil)
		}
		if lines := strings.Count(log.String(), "evicted keys"); keys != c.keys || lines != c.lines {
			t.Errorf("%s: %d keys, %d lines; want %d and %d:\n%s", name, keys, lines, c.keys, c.lines, log)
		}
	}
}

// A real Redis reports its evictions with its clock.
func TestRedisReportsEvictions(t *testing.T) {
	server := storetest.StartServer(t)
	r, err := remote.Open(redis.Options{URL: server.URL(), Budget: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	client := server.Client()
	defer client.Close()
	evicted := func() int64 {
		clocks, err := r.Clocks(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return clocks[0].Evicted
	}
	if n := evicted(); n != 0 {
		t.Errorf("%d at the start", n)
	}
	for i := range 3 {
		if err := client.Set(t.Context(), strings.Repeat("k", i+1), "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, setting := range [][2]string{{"maxmemory-policy", "allkeys-random"}, {"maxmemory", "1"}} {
		if err := client.ConfigSet(t.Context(), setting[0], setting[1]).Err(); err != nil {
			t.Fatal(err)
		}
	}
	// Redis evicts before a command that adds data, which fails nevertheless.
	_ = client.Set(t.Context(), "more", "v", 0).Err()
	if n := evicted(); n < 3 {
		t.Errorf("%d evicted; want 3 or more", n)
	}
	if err := client.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.Do(t.Context(), "ACL", "SETUSER", "default", "-info").Err(); err != nil {
		t.Fatal(err)
	}
	if n := evicted(); n != -1 {
		t.Errorf("%d without permission for INFO; want -1", n)
	}
}
