package operators_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// Without Redis at startup, the service reports that and decides in process; when
// Redis becomes available, it counts there.
func TestRedisAbsentAtStart(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	gone := h.Redis()
	if err := gone.Kill(); err != nil {
		t.Fatal(err)
	}
	k := h.Koalagate("--rules", h.File("rules.conf", rig.LimitedTo(1)), "--redis", gone.URL())
	if !strings.Contains(k.Log(), "Redis is unreachable") {
		t.Errorf("the log does not report that Redis is unavailable:\n%s", k.Log())
	}
	if got := rig.Readyz(t, k); !got.Ready || got.Store != "degraded" || !strings.Contains(got.StoreError, "nothing listens there: start it") {
		t.Errorf("/readyz returns %+v; want ready and degraded, with the fault of Redis and a remedy", got)
	}
	envoy := h.Envoy(h.App(), k)
	r := rig.WantStatus(t, 200, "POST", envoy.URL+"/api/comments", "X-User-Id: ann")
	if r.Header.Get("X-Koala-Degraded") != "1" {
		t.Errorf("headers %v; want X-Koala-Degraded: 1", r.Header)
	}
	rig.WantStatus(t, 429, "POST", envoy.URL+"/api/comments", "X-User-Id: ann")
	rig.WantStatus(t, 500, "GET", "http://"+k.HTTP+"/monitor/alive")

	if _, err := h.Stage.RestartRedis(gone); err != nil {
		t.Fatal(err)
	}
	rig.WaitUntil(t, "it is back on Redis", func() bool { return rig.Readyz(t, k).Store == "redis" })
	r = rig.WantStatus(t, 200, "POST", envoy.URL+"/api/comments", "X-User-Id: ann") // hits counted in rescue are lost
	if r.Header.Get("X-Koala-Degraded") != "" {
		t.Errorf("headers %v; want no X-Koala-Degraded", r.Header)
	}
	rig.WantStatus(t, http.StatusOK, "GET", "http://"+k.HTTP+"/monitor/alive")
}

// If Redis dies while the service runs, every request still gets a decision.
func TestRedisKilledWhileRunning(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	redis := h.Redis()
	k := h.Koalagate("--rules", h.File("rules.conf", rig.LimitedTo(2)), "--redis", redis.URL())
	nginx := h.Nginx(h.App(), k)
	rig.WantStatus(t, 200, "POST", nginx.URL+"/api/comments", "X-User-Id: ann")
	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{200, 429} { // the in-process counter starts from the last answer of Redis
		rig.WantStatus(t, want, "POST", nginx.URL+"/api/comments", "X-User-Id: ann")
	}
	if _, err := h.Stage.RestartRedis(redis); err != nil {
		t.Fatal(err)
	}
	rig.WaitUntil(t, "it is back on Redis", func() bool { return rig.Readyz(t, k).Store == "redis" })
	for _, want := range []int{200, 200, 429} {
		rig.WantStatus(t, want, "POST", nginx.URL+"/api/comments", "X-User-Id: ann")
	}
}
