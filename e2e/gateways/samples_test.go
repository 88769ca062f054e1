package gateways_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// startSamples starts the samples of the gateways with examples/gateway.conf, whose
// window of downloads is extended to an hour.
func startSamples(h *rig.Fixture) (app *e2e.App, gateways map[string]*e2e.Gateway) {
	t := h.T
	t.Helper()
	text := string(rig.Must(os.ReadFile(h.Stage.Path("examples/gateway.conf")))(t))
	const minute, hour = "[time=60; count=20]", "[time=3600; count=20]"
	if strings.Count(text, minute) != 1 {
		t.Fatalf("examples/gateway.conf has %s %d times; want once, in the rule of downloads", minute, strings.Count(text, minute))
	}
	lists := "blocked : " + h.Stage.Path("examples/lists/blocked.dat")
	text = strings.Replace(text, "blocked : lists/blocked.dat", lists, 1)
	instances := h.Pair(h.File("gateway.conf", strings.Replace(text, minute, hour, 1)))
	app = h.App()
	return app, map[string]*e2e.Gateway{
		"envoy": h.Envoy(app, instances...), "nginx": h.Nginx(app, instances...), "accel": h.Accel(app, instances...),
		"caddy": h.Caddy(app, instances...), "haproxy": h.Haproxy(app, instances...),
	}
}

// The samples behave as their comments say.
func TestSamples(t *testing.T) {
	tryAsSamples(rig.NewFixture(t), func(_ *e2e.Gateway, user string) string { return "X-User-Id: " + user })
}

// The same holds if all lines are in force that are comments in the samples: clients then
// authenticate.
func TestSamplesWithUsers(t *testing.T) {
	h := rig.NewFixture(t)
	var users []string
	for _, name := range []string{"envoy", "nginx", "accel", "caddy", "haproxy"} {
		users = append(users, "refused-"+name, "hears-"+name, "forger-"+name, "reader-"+name)
	}
	h.Stage.Authenticate(users...)
	tryAsSamples(h, (*e2e.Gateway).As)
}

// tryAsSamples tries the samples. The header line by which a user calls a gateway is as().
func tryAsSamples(h *rig.Fixture, as func(g *e2e.Gateway, user string) string) {
	t := h.T
	app, gateways := startSamples(h)
	passed := 0
	for name, g := range gateways {
		t.Run(name, func(t *testing.T) {
			t.Run("a refusal is a complete 429", func(t *testing.T) { rig.TrueRefusal(t, g, as(g, "refused-"+name)) })
			t.Run("the application gets the decision", func(t *testing.T) { passesDecision(t, g, as(g, "hears-"+name)) })
			t.Run("clients choose neither act nor path nor address", func(t *testing.T) { rig.Forge(t, g, app, as(g, "forger-"+name)) })
			t.Run("a location sets a parameter", func(t *testing.T) { passed += downloads(t, g, as(g, "reader-"+name)) })
			t.Run("health is not checked", func(t *testing.T) {
				r := rig.WantStatus(t, 200, "GET", g.URL+"/healthz")
				if r.Header.Get("X-Koala-Decision") != "" {
					t.Errorf("headers %v; want no header of koalagate", r.Header)
				}
			})
		})
	}
	// The rule counts by address, and all gateways share its counter.
	if passed != 20 {
		t.Errorf("%d downloads passed the gateways together; want 20", passed)
	}
}

func passesDecision(t *testing.T, g *e2e.Gateway, user string) {
	r := rig.WantStatus(t, 200, "GET", g.URL+"/api/articles/1?x=/../y", user, "X-Koala-Decision: forged", "X-Koala-Rule: 9", "X_Koala_Rule: 9", "X_Koala_Decision: forged")
	var got e2e.Arrived
	want := e2e.Arrived{Method: "GET", Path: "/api/articles/1?x=/../y", Decision: "allow"}
	if err := json.Unmarshal([]byte(r.Body), &got); err != nil || got != want {
		t.Errorf("the application got %s, %v; want %+v", r.Body, err, want)
	}
}

// downloads sends requests until one is refused, and returns the number that passed.
func downloads(t *testing.T, g *e2e.Gateway, user string) (passed int) {
	for {
		r := rig.Send(t, "GET", g.URL+"/downloads/file", user)
		switch {
		case r.Status == 200 && passed < 20:
			passed++
			continue
		case r.Status != 429 || r.Header.Get("X-Koala-Rule") != "301":
			t.Errorf("download %d: %d of rule %q, want 429 of rule 301 after 20 at most", passed+1, r.Status, r.Header.Get("X-Koala-Rule"))
		}
		for _, path := range []string{"//downloads/file", "/%64ownloads/file", "///downloads//file"} {
			if r := rig.Send(t, "GET", g.URL+path, user); r.Status != 429 {
				t.Errorf("%s: %d, want 429 as for /downloads/file", path, r.Status)
			}
		}
		for _, path := range []string{"/./downloads/file", "/x/../downloads/file", "/x/%2e%2E/downloads/file", "/downloads/../downloads/file", "///x/..//downloads//file"} {
			rig.WantRefused(t, "GET", g.URL+path, user)
		}
		return passed
	}
}

// The rate limit service refuses through Envoy, with the entry's message.
func TestRateLimitServiceThroughEnvoy(t *testing.T) {
	h := rig.NewFixture(t)
	k := h.Koalagate("--rules", h.File("rules.conf", `
[rules]
rule : [count] [door=ratelimit; domain=public; remote_address=127.0.0.0/8] [time=3600; count=3] [result=2; return=501]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10, "Err_msg":"Not so fast"}
`))
	app := h.App()
	envoy := h.Envoy(app, k)
	for range 3 {
		rig.WantStatus(t, 200, "GET", envoy.URL+"/anything")
	}
	r := rig.WantStatus(t, 429, "GET", envoy.URL+"/anything")
	if !strings.Contains(r.Body, "Not so fast") || r.Header.Get("Retry-After") == "" {
		t.Errorf("headers %v, body %q; want a Retry-After and the entry's message", r.Header, r.Body)
	}
	if app.Reached() != 3 {
		t.Errorf("%d requests reached the application, want 3", app.Reached())
	}
}

// If koalagate is down, the samples behave as their comments say: nginx lets
// requests through, and Envoy's ext_authz does not.
func TestSamplesWithoutKoalagate(t *testing.T) {
	h := rig.NewFixture(t)
	k := h.Koalagate("--rules", h.Stage.Path("examples/gateway.conf"))
	app := h.App()
	envoy, nginx := h.Envoy(app, k), h.Nginx(app, k)
	if err := k.Kill(); err != nil {
		t.Fatal(err)
	}
	rig.WantStatus(t, 503, "GET", envoy.URL+"/api/articles/1")
	rig.WantStatus(t, 200, "GET", envoy.URL+"/healthz")
	rig.WantStatus(t, 200, "GET", nginx.URL+"/api/articles/1")
}
