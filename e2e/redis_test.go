package e2e_test

import (
	"net/http"
	"strings"
	"testing"
)

// Without Redis at startup, the service reports that and decides in process; when
// Redis becomes available, it counts there.
func TestRedisAbsentAtStart(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	gone := h.redis()
	if err := gone.Kill(); err != nil {
		t.Fatal(err)
	}
	k := h.koalagate("--rules", h.file("rules.conf", limitedTo(1)), "--redis", gone.URL())
	if !strings.Contains(k.Log(), "Redis is unreachable") {
		t.Errorf("the log does not report that Redis is unavailable:\n%s", k.Log())
	}
	if got := readyz(t, k); !got.Ready || got.Store != "degraded" || !strings.Contains(got.StoreError, "nothing listens there: start it") {
		t.Errorf("/readyz returns %+v; want ready and degraded, with the fault of Redis and a remedy", got)
	}
	envoy := h.envoy(h.app(), k)
	r := wantStatus(t, 200, "POST", envoy.URL+"/api/comments", "X-User-Id: ann")
	if r.header.Get("X-Koala-Degraded") != "1" {
		t.Errorf("headers %v; want X-Koala-Degraded: 1", r.header)
	}
	wantStatus(t, 429, "POST", envoy.URL+"/api/comments", "X-User-Id: ann")
	wantStatus(t, 500, "GET", "http://"+k.HTTP+"/monitor/alive")

	if _, err := h.stage.RestartRedis(gone); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "it is back on Redis", func() bool { return readyz(t, k).Store == "redis" })
	r = wantStatus(t, 200, "POST", envoy.URL+"/api/comments", "X-User-Id: ann") // hits counted in rescue are lost
	if r.header.Get("X-Koala-Degraded") != "" {
		t.Errorf("headers %v; want no X-Koala-Degraded", r.header)
	}
	wantStatus(t, http.StatusOK, "GET", "http://"+k.HTTP+"/monitor/alive")
}

// If Redis dies while the service runs, every request still gets a decision.
func TestRedisKilledWhileRunning(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	redis := h.redis()
	k := h.koalagate("--rules", h.file("rules.conf", limitedTo(2)), "--redis", redis.URL())
	nginx := h.nginx(h.app(), k)
	wantStatus(t, 200, "POST", nginx.URL+"/api/comments", "X-User-Id: ann")
	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{200, 429} { // the in-process counter starts from the last answer of Redis
		wantStatus(t, want, "POST", nginx.URL+"/api/comments", "X-User-Id: ann")
	}
	if _, err := h.stage.RestartRedis(redis); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "it is back on Redis", func() bool { return readyz(t, k).Store == "redis" })
	for _, want := range []int{200, 200, 429} {
		wantStatus(t, want, "POST", nginx.URL+"/api/comments", "X-User-Id: ann")
	}
}
