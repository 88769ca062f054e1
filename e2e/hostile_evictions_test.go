package e2e_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A Redis that begins to evict keys while instances run gives clients fresh limits: the log
// and a metric say so.
func TestHostileEvictionsAreReported(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	redis := h.redis()
	k := h.koalagate("--rules", h.file("rules.conf", limitedTo(1)), "--redis", redis.URL())
	envoy := h.envoy(h.app(), k)
	metrics := "http://" + k.Admin + "/metrics"
	evicted := regexp.MustCompile(`(?m)^koalagate_redis_evicted_keys_total [1-9]`)
	if evicted.MatchString(wantStatus(t, http.StatusOK, "GET", metrics).body) {
		t.Fatal("evictions are reported before there were any")
	}
	wantStatus(t, http.StatusOK, "POST", envoy.URL+"/api/comments", "X-User-Id: ann")
	wantStatus(t, http.StatusTooManyRequests, "POST", envoy.URL+"/api/comments", "X-User-Id: ann")

	// Another program fills a Redis that may evict any key.
	redisCommands(t, redis.Address, "CONFIG SET maxmemory-policy allkeys-random", "CONFIG SET maxmemory 1", "SET other 1", "CONFIG SET maxmemory 0")
	waitUntil(t, "the evictions are reported", func() bool {
		return evicted.MatchString(wantStatus(t, http.StatusOK, "GET", metrics).body) && strings.Contains(k.Log(), "Redis has evicted keys")
	})
	if !strings.Contains(k.Log(), "noeviction") {
		t.Error("the log does not name the remedy")
	}
}

// redisCommands sends commands to Redis, whatever it answers.
func redisCommands(t *testing.T, address string, commands ...string) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(conn)
	for _, command := range commands {
		if _, err := fmt.Fprintf(conn, "%s\r\n", command); err != nil {
			t.Fatal(err)
		}
		if _, err := answers.ReadString('\n'); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
	}
}
