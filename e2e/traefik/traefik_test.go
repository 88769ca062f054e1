package traefik_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// The sample limits by path and by router, its refusals reach the client unchanged, and
// nothing passes while koalagate is away.
func TestTraefik(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	k := h.Koalagate("--rules", h.Stage.Path("examples/gateway.conf"))
	app := h.App()
	g := h.Traefik(app, k)
	const ann = "X-User-Id: ann"
	for range 4 {
		r := rig.WantStatus(t, 200, "POST", g.URL+"/api/comments", ann)
		if r.Header.Get("RateLimit") != "" || !strings.Contains(r.Body, `"decision":"allow"`) {
			t.Errorf("an allowed request: %v, %s; want no fields of koalagate, and the decision for the application", r.Header, r.Body)
		}
	}
	before := app.Reached()
	for _, path := range []string{"/api/comments", "//api/comments", "/api/%63omments", "/api/comments?a=/api/articles/1"} {
		r := rig.WantStatus(t, 429, "POST", g.URL+path, ann,
			"X-Koala-Param-Act: read", "X-Forwarded-Uri: /api/articles/1", "X-Forwarded-Method: GET", "X-Forwarded-For: 198.51.100.66")
		rig.WantHeader(t, r.Header, "Content-Type", "application/problem+json")
		rig.WantHeader(t, r.Header, "X-Koala-Rule", "201")
		if r.Header.Get("Retry-After") == "" || r.Header.Get("RateLimit") == "" {
			t.Errorf("%s: %v; want Retry-After and RateLimit", path, r.Header)
		}
	}
	for _, path := range []string{"/api/./comments", "/api/x/../comments"} {
		rig.WantRefused(t, "POST", g.URL+path, ann)
	}
	if app.Reached() != before {
		t.Error("a refused request reached the application")
	}
	for range 20 { // by the parameter of the router
		rig.WantStatus(t, 200, "GET", g.URL+"/downloads/f")
	}
	for _, path := range []string{"/downloads/f", "/x/../downloads/f"} {
		rig.WantStatus(t, 429, "GET", g.URL+path)
	}
	rig.WantStatus(t, 200, "GET", g.URL+"/downloads%2ff") // not the router's, as the page says
	rig.Must(0, k.Stop())(t)
	rig.WantStatus(t, 500, "GET", g.URL+"/a")
	rig.WantStatus(t, 200, "GET", g.URL+"/healthz")
	for line := range strings.Lines(g.Log()) {
		if strings.Contains(line, "WRN") && !strings.Contains(line, "encoded characters") {
			t.Errorf("Traefik warns: %s", line)
		}
	}
}

// The application behind Traefik learns the user of a valid token, and no user from any other
// request: a header with an empty value counts as none, since Traefik cannot remove it.
func TestTraefikForwardsTheVerifiedUser(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.Stage.TrustUsers(false)
	issuer, forger := rig.NewIssuer(t, "1"), rig.NewIssuer(t, "1")
	k := h.Koalagate("--rules", h.SampleRules("examples/tokens.conf", [2]string{"keys/main.jwks.json", h.File("main.jwks.json", issuer.Keys())}))
	ledger := rig.Must(h.Stage.Ledger())(t)
	g := h.Traefik(&e2e.App{Address: ledger.Address}, k)
	const forged = "X-User-Id: mallory"
	for name, c := range map[string]struct {
		user    string
		path    string
		headers []string
	}{
		"a valid token":         {"ann", "/a", []string{"Authorization: Bearer " + issuer.Token("ann")}},
		"a token and a name":    {"ann", "/a", []string{forged, "Authorization: Bearer " + issuer.Token("ann"), forged}},
		"a name alone":          {"", "/a", []string{forged}},
		"names alone":           {"", "/a", []string{forged, "x-user-id: eve", "X_User_Id: eve", "Connection: X-User-Id"}},
		"another scheme":        {"", "/a", []string{forged, "Authorization: Basic YW5uOnNlY3JldA=="}},
		"a path without checks": {"", "/healthz", []string{forged, "Authorization: Bearer " + issuer.Token("ann")}},
	} {
		r := rig.WantStatus(t, 200, "GET", g.URL+c.path, append(c.headers, e2e.TraceHeader+": passed")...)
		if r.Header.Get("X-User-Id") != "" {
			t.Errorf("%s: the client learns the user: %v", name, r.Header)
		}
		entries := ledger.Take()["passed"]
		if len(entries) != 1 {
			t.Fatalf("%s: %d requests reached the application; want one", name, len(entries))
		}
		var users []string
		for header, values := range entries[0].Header {
			if strings.ReplaceAll(strings.ToLower(header), "_", "-") == "x-user-id" {
				users = append(users, values...)
			}
		}
		if strings.Join(users, ",") != c.user {
			t.Errorf("%s: the application got the users %q; want %q", name, users, c.user)
		}
	}
	r := rig.WantStatus(t, 401, "GET", g.URL+"/a", forged, "Authorization: Bearer "+forger.Token("ann"), e2e.TraceHeader+": refused")
	rig.WantHeader(t, r.Header, "WWW-Authenticate", `Bearer error="invalid_token"`)
	if n := len(ledger.Take()["refused"]); n > 0 {
		t.Errorf("%d requests with a forged token reached the application", n)
	}
}

// No header of a client reaches the application in the place of one that koalagate or the
// gateway sets, in any spelling.
func TestTraefikKeepsForgedHeadersOut(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.Stage.TrustUsers(false)
	k := h.Koalagate("--rules", h.Stage.Path("examples/gateway.conf"))
	ledger := rig.Must(h.Stage.Ledger())(t)
	g := h.Traefik(&e2e.App{Address: ledger.Address}, k)
	forged := []string{
		"X-Koala-Decision", "X-Koala-Rule", "X-Koala-Result", "X-Koala-Degraded", "X-Koala-Mark", "X-Koala-Receipt", "X-Koala-Param-Act", "X-Koala-Accel",
		"X-User-Id", "X_User_Id", "X_Koala_Decision", "X-Original-Uri", "X-Rewrite-Url", "X-Http-Method-Override", "Forwarded", "X-Forwarded-Uri", "X-Forwarded-Method",
		"X-Forwarded-For", "X-Forwarded-Host",
	}
	request := "GET /a HTTP/1.1\r\nSHOP\r\nX-Trace: 1" + "\r\n" + strings.Join(forged, ": mallory\r\n") + ": mallory"
	for _, connection := range []string{"", "\r\nConnection: X-User-Id, X-Koala-Decision, X-Koala-Result, X-Forwarded-For"} {
		if status, err := rig.SendRaw(g, request+connection); err != nil || status != http.StatusOK {
			t.Fatalf("%d, %v; want 200", status, err)
		}
		entries := ledger.Take()["1"]
		if len(entries) != 1 {
			t.Fatalf("the application got %v", entries)
		}
		header := entries[0].Header
		for name, values := range header {
			if strings.Contains(fmt.Sprint(values), "mallory") {
				t.Errorf("the application got %s: %q", name, values)
			}
		}
		rig.WantHeader(t, header, "X-Koala-Decision", "none")
		rig.WantHeader(t, header, "X-Koala-Result", "0")
	}
}

// A refusal that redirects reaches the client as the rule states it, if the sample's line
// says so.
func TestTraefikKeepsRedirects(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	k := h.Koalagate("--rules", h.File("rules.conf", `
[rules]
rule : [direct] [path=/login] [] [result=2; return=101]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10, "Http_status":303, "Headers":{"Location":"/wait"}}
`))
	app := h.App()
	for _, c := range []struct {
		want  string
		pairs [][2]string
	}{
		{"/wait", nil},
		{"http://" + k.HTTP + "/wait", [][2]string{{"preserveLocationHeader: true", "preserveLocationHeader: false"}}},
	} {
		g := h.Traefik(app, k, c.pairs...)
		if status, err := rig.SendRaw(g, "GET /login HTTP/1.1\r\nSHOP"); err != nil || status != http.StatusSeeOther {
			t.Errorf("%d, %v; want 303", status, err)
		}
		client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		resp, err := client.Get(g.URL + "/login")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		rig.WantHeader(t, resp.Header, "Location", c.want)
	}
}

// Every odd request of a client is decided and counted before it reaches the application, or
// refused, and later requests are answered.
func TestTraefikOddRequests(t *testing.T) {
	t.Parallel()
	tryOddRequests(rig.NewFixture(t))
}

// The same holds for the sample that authenticates its clients.
func TestTraefikOddRequestsOfUsers(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.Stage.Authenticate("ann")
	tryOddRequests(h)
}

func tryOddRequests(h *rig.Fixture) {
	k := h.Koalagate("--rules", h.File("rules.conf", rig.OneCounter))
	app := h.App()
	rig.TryOddRequests(h.T, "traefik", h.Traefik(app, k), app, k, true)
}
