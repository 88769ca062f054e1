package envoy_test

import (
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// Two instances with one Redis share a limit, whichever of them Envoy calls.
func TestEnvoyOverTwoInstances(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	instances := h.Pair(h.File("rules.conf", rig.LimitedTo(5)))
	app := h.App()
	g := h.Envoy(app, instances...)
	t.Run("GW-71 of twelve requests over two instances five pass", func(t *testing.T) {
		var passed atomic.Int64
		rig.Concurrently(12, func(int) {
			if r, err := rig.TrySend("POST", g.URL+"/api/comments", "X-User-Id: ann"); err == nil && r.Status == 200 {
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
	h := rig.NewFixture(t)
	k := h.Koalagate("--rules", h.File("rules.conf", rig.LimitedTo(100)))
	limits := `[ { actions: [ { remote_address: {} } ] } ]`
	g := rig.Must(h.Stage.EnvoyWith(rig.EnvoyConfig(newMirror(t).Address, rig.Cluster("koalagate", k.GRPC, rig.HTTP2)+rig.Cluster("service", k.HTTP, ""),
		rig.Listener{Name: "authz-closed", Filters: []string{extAuthz("0.3s", `status_on_error: { code: 503 }`)}},
		rig.Listener{Name: "authz-open", Filters: []string{extAuthz("0.3s", `failure_mode_allow: true`)}},
		rig.Listener{Name: "limit-closed", Filters: []string{rig.RateLimit("0.3s", `failure_mode_deny: true, status_on_error: { code: 503 }`)}, RateLimit: limits},
		rig.Listener{Name: "limit-open", Filters: []string{rig.RateLimit("0.3s", "")}, RateLimit: limits},
		rig.Listener{Name: "web-closed", Filters: []string{httpAuthz("status_on_error: { code: 503 }")}},
		rig.Listener{Name: "web-open", Filters: []string{httpAuthz("failure_mode_allow: true")}},
	)))(t)
	want := func(t *testing.T, closed int) {
		t.Helper()
		for on, address := range g.Listeners {
			status := 200
			if strings.HasSuffix(on, "closed") {
				status = closed
			}
			begin := time.Now()
			if r := rig.Send(t, "GET", "http://"+address+"/", "X-User-Id: ann"); r.Status != status {
				t.Errorf("%s: %d; want %d", on, r.Status, status)
			}
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("%s: the answer took %v; want at most 0.3 s of waiting", on, took)
			}
		}
	}
	rig.WaitUntil(t, "koalagate answers Envoy in time", func() bool {
		return rig.Send(t, "GET", "http://"+g.Listeners["authz-closed"]+"/").Status == 200
	})
	t.Run("GW-72 a slow koalagate fails as configured", func(t *testing.T) {
		rig.Signal(t, k, syscall.SIGSTOP)
		rig.WaitUntil(t, "it has stopped", func() bool {
			return rig.Send(t, "GET", "http://"+g.Listeners["authz-closed"]+"/").Status == 503
		})
		want(t, 503)
		rig.Signal(t, k, syscall.SIGCONT)
		rig.WaitUntil(t, "it answers again", func() bool {
			return rig.Send(t, "GET", "http://"+g.Listeners["authz-closed"]+"/").Status == 200
		})
	})
	t.Run("GW-73 a dead koalagate fails as configured", func(t *testing.T) {
		if err := k.Kill(); err != nil {
			t.Fatal(err)
		}
		want(t, 503)
	})
}

// httpAuthz returns the filter that calls koalagate over HTTP.
func httpAuthz(more string) string {
	filter := strings.Replace(extAuthzHTTP(more+`, allowed_headers: { patterns: [ { exact: x-forwarded-for } ] }`, ""), "path_prefix: /auth", "path_prefix: /v1/ext-authz", 1)
	return strings.Replace(filter, "timeout: "+rig.Ample, "timeout: 0.3s", 1)
}

// Both filters are active while one instance after the other stops.
func TestEnvoyWhileInstancesStop(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	rules, redis := h.File("rules.conf", rig.LimitedTo(1_000_000)), h.Redis().URL()
	start := func() *e2e.Koalagate {
		return rig.Must(h.Stage.Koalagate(rig.Binary, rig.RaceSettings[:1], "--rules", rules, "--redis", redis))(t)
	}
	first, second, third, staying := start(), start(), start(), start()
	g := h.Envoy(h.App(), first, second, third, staying)
	t.Run("GW-83 no call is lost while instances drain", func(t *testing.T) {
		stop := rig.Load(t, g.URL+"/api/comments")
		for _, going := range []*e2e.Koalagate{first, second} {
			rig.Signal(t, going, syscall.SIGTERM)
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
			rig.WantStatus(t, 200, "POST", g.URL+"/api/comments", "X-User-Id: ann")
		}
	})
}
