package e2e_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e"
)

// startSamples starts the samples of the gateways with examples/gateway.conf, whose
// window of downloads is extended to an hour.
func startSamples(h *fixture) (app *e2e.App, gateways map[string]*e2e.Gateway) {
	t := h.T
	t.Helper()
	text := string(must(os.ReadFile(h.stage.Path("examples/gateway.conf")))(t))
	const minute, hour = "[time=60; count=20]", "[time=3600; count=20]"
	if strings.Count(text, minute) != 1 {
		t.Fatalf("examples/gateway.conf has %s %d times; want once, in the rule of downloads", minute, strings.Count(text, minute))
	}
	lists := "blocked : " + h.stage.Path("examples/lists/blocked.dat")
	text = strings.Replace(text, "blocked : lists/blocked.dat", lists, 1)
	instances := h.pair(h.file("gateway.conf", strings.Replace(text, minute, hour, 1)))
	app = h.app()
	return app, map[string]*e2e.Gateway{
		"envoy": h.envoy(app, instances...), "nginx": h.nginx(app, instances...), "accel": h.accel(app, instances...),
		"caddy": h.caddy(app, instances...), "haproxy": h.haproxy(app, instances...),
	}
}

// The samples behave as their comments say.
func TestSamples(t *testing.T) {
	tryAsSamples(newFixture(t), func(_ *e2e.Gateway, user string) string { return "X-User-Id: " + user })
}

// The same holds if all lines are in force that are comments in the samples: clients then
// authenticate.
func TestSamplesWithUsers(t *testing.T) {
	h := newFixture(t)
	var users []string
	for _, name := range []string{"envoy", "nginx", "accel", "caddy", "haproxy"} {
		users = append(users, "refused-"+name, "hears-"+name, "forger-"+name, "reader-"+name)
	}
	h.stage.Authenticate(users...)
	tryAsSamples(h, (*e2e.Gateway).As)
}

// tryAsSamples tries the samples. The header line by which a user calls a gateway is as().
func tryAsSamples(h *fixture, as func(g *e2e.Gateway, user string) string) {
	t := h.T
	app, gateways := startSamples(h)
	passed := 0
	for name, g := range gateways {
		t.Run(name, func(t *testing.T) {
			t.Run("a refusal is a complete 429", func(t *testing.T) { trueRefusal(t, g, as(g, "refused-"+name)) })
			t.Run("the application gets the decision", func(t *testing.T) { passesDecision(t, g, as(g, "hears-"+name)) })
			t.Run("clients choose neither act nor path nor address", func(t *testing.T) { forge(t, g, app, as(g, "forger-"+name)) })
			t.Run("a location sets a parameter", func(t *testing.T) { passed += downloads(t, g, as(g, "reader-"+name)) })
			t.Run("health is not checked", func(t *testing.T) {
				r := wantStatus(t, 200, "GET", g.URL+"/healthz")
				if r.header.Get("X-Koala-Decision") != "" {
					t.Errorf("headers %v; want no header of koalagate", r.header)
				}
			})
		})
	}
	// The rule counts by address, and all gateways share its counter.
	if passed != 20 {
		t.Errorf("%d downloads passed the gateways together; want 20", passed)
	}
}

func trueRefusal(t *testing.T, g *e2e.Gateway, user string) {
	for left := 3; left >= 0; left-- {
		r := wantStatus(t, 200, "POST", g.URL+"/api/comments", user)
		if got, want := r.header.Get("RateLimit-Remaining"), string(rune('0'+left)); got != want {
			t.Errorf("RateLimit-Remaining %q, want %q", got, want)
		}
	}
	r := wantStatus(t, 429, "POST", g.URL+"/api/comments", user)
	for header, want := range map[string]string{
		"Content-Type": "application/problem+json", "X-Koala-Decision": "deny", "X-Koala-Rule": "201", "X-Koala-Result": "2",
		"RateLimit-Policy": `"r201";q=4;w=90`, "RateLimit": `"r201";r=0;t=` + r.header.Get("Retry-After"),
		"RateLimit-Limit": "4", "RateLimit-Remaining": "0", "RateLimit-Reset": r.header.Get("Retry-After"),
	} {
		if got := r.header.Values(header); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", header, got, want)
		}
	}
	if r.header.Get("Retry-After") == "" {
		t.Errorf("no Retry-After in %v", r.header)
	}
	var problem struct {
		Type, Title, Detail string
		Status              int
		Violated            []string `json:"violated-policies"`
	}
	if err := json.Unmarshal([]byte(r.body), &problem); err != nil || problem.Status != 429 ||
		problem.Detail != "Too many requests" || len(problem.Violated) != 1 || problem.Violated[0] != "r201" {
		t.Errorf("body %q, %v; want a problem document of r201", r.body, err)
	}
}

func passesDecision(t *testing.T, g *e2e.Gateway, user string) {
	r := wantStatus(t, 200, "GET", g.URL+"/api/articles/1?x=/../y", user, "X-Koala-Decision: forged", "X-Koala-Rule: 9", "X_Koala_Rule: 9", "X_Koala_Decision: forged")
	var got e2e.Arrived
	want := e2e.Arrived{Method: "GET", Path: "/api/articles/1?x=/../y", Decision: "allow"}
	if err := json.Unmarshal([]byte(r.body), &got); err != nil || got != want {
		t.Errorf("the application got %s, %v; want %+v", r.body, err, want)
	}
}

// forge tries to make a gateway count a request under another act, path or address.
func forge(t *testing.T, g *e2e.Gateway, app *e2e.App, user string) {
	forged := []string{
		"X-Koala-Param-Act: read", "X-Original-URI: /api/articles/1", "X-Original-Method: GET", "X-Forwarded-Uri: /api/articles/1",
		"X-Forwarded-Method: GET", "X-Real-IP: 198.51.100.66", "X-Forwarded-For: 198.51.100.66", "X-Koala-Status: 200",
	}
	headers := append([]string{user}, forged...)
	for range 4 {
		wantStatus(t, 200, "POST", g.URL+"/api/comments", headers...) // the address is not replaced with the blocked one
	}
	before := app.Reached()
	for _, path := range []string{"/api/comments", "//api/comments", "/api/%63omments", "/api/comments?a=/api/articles/1"} {
		wantStatus(t, 429, "POST", g.URL+path, headers...)
	}
	for _, path := range []string{"/api/./comments", "/api/x/../comments"} {
		wantRefused(t, "POST", g.URL+path, headers...)
	}
	if app.Reached() != before {
		t.Error("a refused request reached the application")
	}
}

// wantRefused sends a request whose path has dot segments. A gateway resolves
// them, and the rules refuse the request, or it refuses them itself.
func wantRefused(t *testing.T, method, url string, headers ...string) {
	t.Helper()
	if r := send(t, method, url, headers...); r.status != http.StatusTooManyRequests && r.status != http.StatusBadRequest {
		t.Errorf("%s %s: %d; want 429 as without dot segments, or 400", method, url, r.status)
	}
}

// downloads sends requests until one is refused, and returns the number that passed.
func downloads(t *testing.T, g *e2e.Gateway, user string) (passed int) {
	for {
		r := send(t, "GET", g.URL+"/downloads/file", user)
		switch {
		case r.status == 200 && passed < 20:
			passed++
			continue
		case r.status != 429 || r.header.Get("X-Koala-Rule") != "301":
			t.Errorf("download %d: %d of rule %q, want 429 of rule 301 after 20 at most", passed+1, r.status, r.header.Get("X-Koala-Rule"))
		}
		for _, path := range []string{"//downloads/file", "/%64ownloads/file", "///downloads//file"} {
			if r := send(t, "GET", g.URL+path, user); r.status != 429 {
				t.Errorf("%s: %d, want 429 as for /downloads/file", path, r.status)
			}
		}
		for _, path := range []string{"/./downloads/file", "/x/../downloads/file", "/x/%2e%2E/downloads/file", "/downloads/../downloads/file", "///x/..//downloads//file"} {
			wantRefused(t, "GET", g.URL+path, user)
		}
		return passed
	}
}

// The rate limit service refuses through Envoy, with the entry's message.
func TestRateLimitServiceThroughEnvoy(t *testing.T) {
	h := newFixture(t)
	k := h.koalagate("--rules", h.file("rules.conf", `
[rules]
rule : [count] [door=ratelimit; domain=public; remote_address=127.0.0.0/8] [time=3600; count=3] [result=2; return=501]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10, "Err_msg":"Not so fast"}
`))
	app := h.app()
	envoy := h.envoy(app, k)
	for range 3 {
		wantStatus(t, 200, "GET", envoy.URL+"/anything")
	}
	r := wantStatus(t, 429, "GET", envoy.URL+"/anything")
	if !strings.Contains(r.body, "Not so fast") || r.header.Get("Retry-After") == "" {
		t.Errorf("headers %v, body %q; want a Retry-After and the entry's message", r.header, r.body)
	}
	if app.Reached() != 3 {
		t.Errorf("%d requests reached the application, want 3", app.Reached())
	}
}

// If koalagate is down, the samples behave as their comments say: nginx lets
// requests through, and Envoy's ext_authz does not.
func TestSamplesWithoutKoalagate(t *testing.T) {
	h := newFixture(t)
	k := h.koalagate("--rules", h.stage.Path("examples/gateway.conf"))
	app := h.app()
	envoy, nginx := h.envoy(app, k), h.nginx(app, k)
	if err := k.Kill(); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, 503, "GET", envoy.URL+"/api/articles/1")
	wantStatus(t, 200, "GET", envoy.URL+"/healthz")
	wantStatus(t, 200, "GET", nginx.URL+"/api/articles/1")
}
