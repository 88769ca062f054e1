package hostile_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// A Redis that begins to evict keys while instances run gives clients fresh limits: the log
// and a metric say so.
func TestHostileEvictionsAreReported(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	redis := h.Redis()
	k := h.Koalagate("--rules", h.File("rules.conf", rig.LimitedTo(1)), "--redis", redis.URL())
	envoy := h.Envoy(h.App(), k)
	metrics := "http://" + k.Admin + "/metrics"
	evicted := regexp.MustCompile(`(?m)^koalagate_redis_evicted_keys_total [1-9]`)
	if evicted.MatchString(rig.WantStatus(t, http.StatusOK, "GET", metrics).Body) {
		t.Fatal("evictions are reported before there were any")
	}
	rig.WantStatus(t, http.StatusOK, "POST", envoy.URL+"/api/comments", "X-User-Id: ann")
	rig.WantStatus(t, http.StatusTooManyRequests, "POST", envoy.URL+"/api/comments", "X-User-Id: ann")

	// Another program fills a Redis that may evict any key.
	redisCommands(t, redis.Address, "CONFIG SET maxmemory-policy allkeys-random", "CONFIG SET maxmemory 1", "SET other 1", "CONFIG SET maxmemory 0")
	rig.WaitUntil(t, "the evictions are reported", func() bool {
		return evicted.MatchString(rig.WantStatus(t, http.StatusOK, "GET", metrics).Body) && strings.Contains(k.Log(), "Redis has evicted keys")
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
