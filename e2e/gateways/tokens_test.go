package gateways_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// Behind each sample, examples/tokens.conf lets a client be only the user whose token is valid:
// the application learns that user, and never a name that the client sends.
func TestTokensDecideWhoAsks(t *testing.T) {
	h := rig.NewFixture(t)
	h.Stage.TrustUsers(false)
	issuer, forger := rig.NewIssuer(t, "1"), rig.NewIssuer(t, "1")
	k := h.Koalagate("--rules", h.SampleRules("examples/tokens.conf",
		[2]string{"keys/main.jwks.json", h.File("main.jwks.json", issuer.Keys())},
		[2]string{"[time=60; count=60]", "[time=3600; count=3]"}, [2]string{"[time=60; count=20]", "[time=3600; count=10]"}))
	ledger := rig.Must(h.Stage.Ledger())(t)
	app := &e2e.App{Address: ledger.Address}
	gateways := map[string]*e2e.Gateway{
		"envoy": h.Envoy(app, k), "envoy-http": h.EnvoyHTTP(app, k), "nginx": h.Nginx(app, k), "accel": h.Accel(app, k),
		"caddy": h.Caddy(app, k), "haproxy": h.Haproxy(app, k),
	}
	past := map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}
	for name, g := range gateways {
		t.Run(name, func(t *testing.T) {
			ann := "ann-" + name
			for refused, text := range map[string]string{
				"expired": issuer.Token(ann, past), "forged": forger.Token(ann), "for another audience": issuer.Token(ann, map[string]any{"aud": "shop"}),
				"of another issuer": issuer.Token(ann, map[string]any{"iss": "https://evil.example/"}), "no token at all": "ann",
				"without a signature": issuer.Token(ann)[:strings.LastIndexByte(issuer.Token(ann), '.')+1],
			} {
				wantChallenge(t, g, refused, "Authorization: Bearer "+text)
			}
			if entries := ledger.Take(); len(entries["refused"]) > 0 {
				t.Errorf("%d requests with tokens that are not valid reached the application", len(entries["refused"]))
			}
			for _, scheme := range []string{"Bearer", "bearer", "BEARER"} {
				wantUser(t, g, ledger, ann, "/", "Authorization: "+scheme+" "+issuer.Token(ann), "X-User-Id: mallory")
			}
			if r := rig.WantStatus(t, 429, "GET", g.URL+"/", "Authorization: Bearer "+issuer.Token(ann)); r.Header.Get("X-Koala-Rule") != "204" {
				t.Errorf("rule %q refused; want 204, of the user's plan", r.Header.Get("X-Koala-Rule"))
			}
			wantUser(t, g, ledger, ann+"-gold", "/", "Authorization: Bearer "+issuer.Token(ann+"-gold", map[string]any{"plan": "gold"}), "X-User-Id: "+ann)
			for _, subject := range []string{ann + "\r\nX-Admin: 1", ann + "\x00", ann + "\x7f", ann + strings.Repeat("u", 4096)} { // none that a header can hold
				wantUser(t, g, ledger, "", "/", "Authorization: Bearer "+issuer.Token(subject), "X-User-Id: "+ann)
			}
			wantUser(t, g, ledger, "", "/", "X-User-Id: "+ann)
			wantUser(t, g, ledger, "", "/", "Authorization: Basic YW5uOnNlY3JldA==", "X-User-Id: "+ann)
		})
	}
	rig.WantStatus(t, 429, "GET", gateways["envoy"].URL+"/") // all are of one network
}

// The gateways send what has a token to koalagate, wherever rules say that it is.
func TestTokensInOtherPlaces(t *testing.T) {
	h := rig.NewFixture(t)
	h.Stage.TrustUsers(false)
	issuer := rig.NewIssuer(t, "1")
	k := h.Koalagate("--rules", h.SampleRules("examples/tokens.conf", [2]string{"keys/main.jwks.json", h.File("main.jwks.json", issuer.Keys())},
		[2]string{"audience=api\n", "audience=api; from=header X-Token, cookie session, query token\n"}))
	ledger := rig.Must(h.Stage.Ledger())(t)
	app := &e2e.App{Address: ledger.Address}
	const check, own = "                # koalagate gateway: begin check\n", "                - { exact: x-token, ignore_case: true }\n"
	dir := t.TempDir()
	made(t, "envoy-http", filepath.Join(h.Dir, "tokens.conf"), dir)
	if text := string(rig.Must(os.ReadFile(filepath.Join(dir, "envoy.yaml")))(t)); !strings.Contains(text, check+own) {
		t.Fatalf("the configuration for the rules lacks %q", check+own)
	}
	for name, g := range map[string]*e2e.Gateway{
		"envoy": h.Envoy(app, k), "envoy-http": h.EnvoyHTTPWith(app, k, [2]string{check, check + own}), "nginx": h.Nginx(app, k), "accel": h.Accel(app, k),
		"caddy": h.Caddy(app, k), "haproxy": h.Haproxy(app, k),
	} {
		t.Run(name, func(t *testing.T) {
			ann := "ann-" + name
			token := issuer.Token(ann)
			for _, header := range []string{"X-Token: " + token, "x-token:  " + token + " ", "Cookie: a=b; session=" + token} {
				wantUser(t, g, ledger, ann, "/", header, "X-User-Id: mallory")
			}
			wantUser(t, g, ledger, ann, "/?a=b&token="+token, "X-User-Id: mallory")
			wantUser(t, g, ledger, "", "/", "Authorization: Bearer "+token, "X-User-Id: mallory")
			rig.WantStatus(t, 401, "GET", g.URL+"/", "X-Token: "+token+"x")
			rig.WantStatus(t, 401, "GET", g.URL+"/", "Cookie: session="+token+"; session=x")
			rig.WantStatus(t, 401, "GET", g.URL+"/?token="+token+"&token=x")
		})
	}
}

// wantChallenge sends a request whose token is not valid, and checks that the client gets a 401
// with the entry's header and body.
func wantChallenge(t *testing.T, g *e2e.Gateway, why, authorization string) {
	t.Helper()
	r := rig.WantStatus(t, 401, "GET", g.URL+"/", authorization, "X-User-Id: mallory", e2e.TraceHeader+": refused")
	if got := r.Header.Values("WWW-Authenticate"); len(got) != 1 || got[0] != `Bearer error="invalid_token"` {
		t.Errorf("%s: WWW-Authenticate is %q; want the entry's", why, got)
	}
	var problem struct {
		Status int
		Detail string
	}
	if err := json.Unmarshal([]byte(r.Body), &problem); err != nil || problem.Status != 401 || problem.Detail != "Send a token that is valid" || r.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s: body %q of type %q, %v; want the entry's message", why, r.Body, r.Header.Get("Content-Type"), err)
	}
}

// wantUser sends a request that is allowed, and checks the user that the application learns,
// "" for none.
func wantUser(t *testing.T, g *e2e.Gateway, ledger *e2e.Ledger, user, target string, headers ...string) {
	t.Helper()
	r := rig.WantStatus(t, 200, "GET", g.URL+target, append(headers, e2e.TraceHeader+": passed")...)
	if r.Header.Get("X-User-Id") != "" {
		t.Errorf("%q: the client gets the user %q", headers, r.Header.Get("X-User-Id"))
	}
	entries := ledger.Take()["passed"]
	if len(entries) != 1 {
		t.Fatalf("%q: %d requests reached the application; want one", headers, len(entries))
	}
	if entries[0].Header.Get("X-Admin") != "" {
		t.Errorf("%q: a claim added a header: %v", headers, entries[0].Header)
	}
	for name, values := range entries[0].Header {
		if strings.ReplaceAll(strings.ToLower(name), "_", "-") == "x-user-id" && (user == "" || len(values) != 1 || values[0] != user) {
			t.Errorf("%q: the application got %s: %q; want %q", headers, name, values, user)
		}
	}
	if user != "" && entries[0].Header.Get("X-User-Id") != user {
		t.Errorf("%q: the application got no user; want %q", headers, user)
	}
}
