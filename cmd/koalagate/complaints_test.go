package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/metrics"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

func TestComplaintsComeEverySoOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(bytes.Buffer)
		c := complaints{logger: slog.New(slog.NewTextHandler(log, nil))}
		for range 25 {
			c.tell("it hurts", "key", "a\nb")
			time.Sleep(time.Second)
		}
		if n := strings.Count(log.String(), "\n"); n != 3 || strings.Count(log.String(), "since_last_line=9") != 2 {
			t.Errorf("%d lines for 25 s:\n%s", n, log)
		}
	})
}

// TestADatabaseThatRedisHasNot ends the start: no counter will ever be there.
func TestADatabaseThatRedisHasNot(t *testing.T) {
	server := storetest.StartServer(t)
	flags := map[string]any{"redis": server.URL() + "?db=99", "redis_budget": "10s"}
	loaded, err := config.Load(config.Input{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	_, err = openCounters(&loaded.Config, metrics.New(metrics.Build{}), slog.New(slog.DiscardHandler))
	if err := naming(loaded, err); err == nil || !strings.HasPrefix(err.Error(), "redis (flag --redis): that Redis has no database of this number") {
		t.Errorf("the start ends with %v", err)
	}
}

// BenchmarkDamage is what it costs a call to tell that a key held no counters,
// where all calls at a time meet such keys.
func BenchmarkDamage(b *testing.B) {
	m, c := metrics.New(metrics.Build{}), complaints{logger: slog.New(slog.DiscardHandler)}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.Damaged()
			c.tell("A key in Redis held no counters of ours; counting afresh there", "key", "koala:1:{%01%03ann}")
		}
	})
}

// TestTamperingIsLogged puts garbage where a counter was: the next decision
// counts afresh, and the log and a metric tell.
func TestTamperingIsLogged(t *testing.T) {
	server := storetest.StartServer(t)
	c := config.Default()
	c.Redis, c.RedisBudget = config.RedisURL(server.URL()), time.Minute
	log := new(bytes.Buffer)
	s, err := openCounters(&c, metrics.New(metrics.Build{}), slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(oneRule)}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	e := engine.New(set, wiring.CountIn(s))
	take := func() int64 {
		params := new(rules.Params)
		params.Set("uid", "ann")
		d, err := e.Decide(t.Context(), &engine.Call{Op: engine.Take, Inputs: []engine.Input{{Params: params, Hits: 1}}})
		if err != nil || d.Degraded || d.Verdict != rules.Allow {
			t.Fatalf("%+v, %v", d, err)
		}
		return d.Answers[0].Quota.Remaining
	}
	take()
	client := server.Client()
	defer client.Close()
	for _, key := range keysOf(t, server) {
		if err := client.Set(t.Context(), key, "garbage", time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if left := take(); left != 999 {
		t.Errorf("%d are left, want 999: garbage is no counter", left)
	}
	if want := `msg="A key in Redis held no counters of ours; counting afresh there" key=koala:1:{%01%03ann}`; !strings.Contains(log.String(), want) {
		t.Errorf("the log says\n%s\nwant %s", log, want)
	}
}
