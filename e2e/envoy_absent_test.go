package e2e_test

import (
	"context"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
)

// Two instances with one Redis share a limit, whichever of them Envoy calls.
func TestEnvoyOverTwoInstances(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	instances := h.pair(h.file("rules.conf", limitedTo(5)))
	app := h.app()
	g := h.envoy(app, instances...)
	t.Run("GW-71 of twelve requests over two instances five pass", func(t *testing.T) {
		var passed atomic.Int64
		concurrently(12, func(int) {
			if r, err := trySend("POST", g.URL+"/api/comments", "X-User-Id: ann"); err == nil && r.status == 200 {
				passed.Add(1)
			}
		})
		if passed.Load() != 5 || app.Reached() != 5 {
			t.Errorf("%d passed and %d reached the application; want 5", passed.Load(), app.Reached())
		}
	})
}

// If koalagate does not answer or is down, the filter's failure mode applies, and
// clients wait no longer than its timeout.
func TestEnvoyWithoutAnswer(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	k := h.koalagate("--rules", h.file("rules.conf", limitedTo(100)))
	limits := `[ { actions: [ { remote_address: {} } ] } ]`
	g := must(h.stage.EnvoyWith(envoyConfig(newMirror(t).Address, cluster("koalagate", k.GRPC, http2)+cluster("service", k.HTTP, ""),
		listener{name: "authz-closed", filters: []string{extAuthz("0.3s", `status_on_error: { code: 503 }`)}},
		listener{name: "authz-open", filters: []string{extAuthz("0.3s", `failure_mode_allow: true`)}},
		listener{name: "limit-closed", filters: []string{rateLimit("0.3s", `failure_mode_deny: true, status_on_error: { code: 503 }`)}, rateLimit: limits},
		listener{name: "limit-open", filters: []string{rateLimit("0.3s", "")}, rateLimit: limits},
		listener{name: "web-closed", filters: []string{httpAuthz("status_on_error: { code: 503 }")}},
		listener{name: "web-open", filters: []string{httpAuthz("failure_mode_allow: true")}},
	)))(t)
	want := func(t *testing.T, closed int) {
		t.Helper()
		for on, address := range g.Listeners {
			status := 200
			if strings.HasSuffix(on, "closed") {
				status = closed
			}
			begin := time.Now()
			if r := send(t, "GET", "http://"+address+"/", "X-User-Id: ann"); r.status != status {
				t.Errorf("%s: %d; want %d", on, r.status, status)
			}
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("%s: the answer took %v; want at most 0.3 s of waiting", on, took)
			}
		}
	}
	waitUntil(t, "koalagate answers Envoy in time", func() bool {
		return send(t, "GET", "http://"+g.Listeners["authz-closed"]+"/").status == 200
	})
	t.Run("GW-72 a slow koalagate fails as configured", func(t *testing.T) {
		signal(t, k, syscall.SIGSTOP)
		waitUntil(t, "it has stopped", func() bool {
			return send(t, "GET", "http://"+g.Listeners["authz-closed"]+"/").status == 503
		})
		want(t, 503)
		signal(t, k, syscall.SIGCONT)
		waitUntil(t, "it answers again", func() bool {
			return send(t, "GET", "http://"+g.Listeners["authz-closed"]+"/").status == 200
		})
	})
	t.Run("GW-73 a dead koalagate fails as configured", func(t *testing.T) {
		if err := k.Kill(); err != nil {
			t.Fatal(err)
		}
		want(t, 503)
	})
}

func signal(t *testing.T, k *e2e.Koalagate, s os.Signal) {
	t.Helper()
	if err := k.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// httpAuthz returns the filter that calls koalagate over HTTP.
func httpAuthz(more string) string {
	filter := strings.Replace(extAuthzHTTP(more+`, allowed_headers: { patterns: [ { exact: x-forwarded-for } ] }`, ""), "path_prefix: /auth", "path_prefix: /v1/ext-authz", 1)
	return strings.Replace(filter, "timeout: "+ample, "timeout: 0.3s", 1)
}

// load sends requests from several callers until stop is called, which returns
// their number. It returns when ten are answered, so that what follows happens under load.
// Each answer other than 200 fails the test.
func load(t *testing.T, url string) (stop func() int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var callers sync.WaitGroup
	var answered atomic.Int64
	for range 4 {
		callers.Go(func() {
			for ctx.Err() == nil {
				if r, err := trySend("POST", url, "X-User-Id: ann"); err != nil || r.status != http.StatusOK {
					t.Errorf("under load: %d %s, %v; want 200", r.status, r.body, err)
					return
				}
				answered.Add(1)
			}
		})
	}
	stopped := false
	stop = func() int64 {
		if !stopped {
			stopped = true
			cancel()
			callers.Wait()
		}
		return answered.Load()
	}
	t.Cleanup(func() { stop() })
	waitUntil(t, "the load is under way", func() bool { return answered.Load() >= 10 || t.Failed() })
	return stop
}

// Both filters are active while one instance after the other stops.
func TestEnvoyWhileInstancesStop(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	rules, redis := h.file("rules.conf", limitedTo(1_000_000)), h.redis().URL()
	start := func() *e2e.Koalagate {
		return must(h.stage.Koalagate(binary, raceSettings[:1], "--rules", rules, "--redis", redis))(t)
	}
	first, second, third, staying := start(), start(), start(), start()
	g := h.envoy(h.app(), first, second, third, staying)
	t.Run("GW-83 no call is lost while instances drain", func(t *testing.T) {
		stop := load(t, g.URL+"/api/comments")
		for _, going := range []*e2e.Koalagate{first, second} {
			signal(t, going, syscall.SIGTERM)
			if !going.Ended(20 * time.Second) {
				t.Error("the instance still runs 20 s after SIGTERM")
			}
		}
		t.Logf("%d requests were answered", stop())
	})
	t.Run("GW-84 calls that could not be sent go to another instance", func(t *testing.T) {
		if err := third.Kill(); err != nil {
			t.Fatal(err)
		}
		for range 10 { // before a health check can detect it
			wantStatus(t, 200, "POST", g.URL+"/api/comments", "X-User-Id: ann")
		}
	})
}
