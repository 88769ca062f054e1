package rig

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/koalagate/koalagate/e2e"
)

// DoorRules contains a rule for every kind of answer, and one for every parameter
// that a client may try to forge.
const DoorRules = `
[params]
uid : header X-User-Id else client-ip
act : gateway
[routes]
POST /api/comments : act=comment
POST /api/upload   : act=upload
GET  /api/captcha  : act=captcha
GET  /api/login    : act=login
GET  /pages/ : act=page
GET  /once/  : act=page
GET  /tried/ : act=page
GET  /error/ : act=page
[rules]
rule : [direct] [uid=blocked]           [] [result=3; return=101]
rule : [direct] [act=captcha]           [] [result=4; return=102]
rule : [direct] [act=login]             [] [result=5; return=103]
rule : [direct] [ip=198.51.100.66]      [] [result=3; return=901]
rule : [direct] [act=forged]            [] [result=3; return=902]
rule : [direct] [method=FORGED]         [] [result=3; return=903]
rule : [direct] [path=/forged]          [] [result=3; return=904]
rule : [direct] [host=forged.example]   [] [result=3; return=905]
rule : [direct] [scheme=forged]         [] [result=3; return=906]
rule : [direct] [door=forged]           [] [result=3; return=907]
rule : [count]  [act=comment; uid=+]    [time=3600; count=5;] [result=2; return=201]
rule : [count]  [path=/by-address; ip=+] [time=3600; count=5;] [result=2; return=202]
rule : [count]  [act=page; uid=+]   [time=3600; count=50;] [result=2; return=203]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10, "Err_msg":"Too many comments"}
3 : {"Err_no":11}
4 : {"Err_no":20, "Need_vcode":1, "Vcode_len":4}
5 : {"Err_no":21, "Http_status":302, "Headers":{"Location":"https://login.example/"}}
`

// Door is a kind of gateway that calls koalagate over HTTP.
type Door struct {
	First int // number of its first fact in docs/gateways/facts-http.md
	// Open starts the sample, which fails open, and shut its variant that fails
	// closed.
	Open, Shut func(h *Fixture, app *e2e.App, koalagate ...string) *e2e.Gateway
	// Down lists the statuses of a refusal if koalagate is down.
	Down []int
}

// Run runs the tests that all gateways have in common, each named by its fact.
func (d *Door) Run(t *testing.T) {
	t.Parallel() // most of the time is spent waiting for timeouts
	h := NewFixture(t)
	rules := h.File("rules.conf", DoorRules)
	instances := h.Pair(rules)
	app := h.App()
	g := d.Open(h, app, AddressesOf(instances)...)
	for i, test := range []func(*testing.T, *e2e.Gateway, *e2e.App){allows, refuses, challenges, blocks, passesBodies, resistsForgery, sharesLimits} {
		t.Run(d.fact(i), func(t *testing.T) { test(t, g, app) })
	}
	t.Run(d.fact(7), func(t *testing.T) { d.keepsConnections(t, h, app, instances[0]) })
	d.withoutKoalagate(t, h, app, rules)
	t.Run(d.fact(10), func(t *testing.T) { d.withoutApplication(t, h, instances) })
}

func (d *Door) fact(i int) string { return fmt.Sprintf("GW-%d", d.First+i) }

// allows checks that an allowed request reaches the application with the decision,
// and that the client gets its quota.
func allows(t *testing.T, g *e2e.Gateway, _ *e2e.App) {
	r := WantStatus(t, 200, "POST", g.URL+"/api/comments?page=1", "X-User-Id: allowed",
		"X-Koala-Rule: 7", "X_Koala_Rule: 7", "X-Koala_Rule: 7", "x_koala-rule: 7", "X-Koala-Decision: forged", "X_Koala_Decision: forged")
	want := e2e.Arrived{Method: "POST", Path: "/api/comments?page=1", Decision: "allow"}
	if got := arrived(t, r); got != want {
		t.Errorf("the application got %+v; want %+v", got, want)
	}
	WantHeaders(t, r, map[string]string{
		"RateLimit-Policy": `"r201";q=5;w=3600`, "RateLimit-Limit": "5", "RateLimit-Remaining": "4", "RateLimit-Reset": "3600",
		"RateLimit": `"r201";r=4;t=3600`, "Content-Type": "application/json",
	})
	r = WantStatus(t, 200, "GET", g.URL+"/elsewhere")
	WantHeaders(t, r, map[string]string{"RateLimit": "", "RateLimit-Policy": "", "RateLimit-Limit": "", "Retry-After": "", "Cache-Control": ""})
	if got := arrived(t, r); got.Decision != "none" || got.Rule != "" {
		t.Errorf("the application got %+v of a request that meets no rule; want the decision none", got)
	}
}

// refuses checks that a refusal is a 429 with koalagate's body and headers, each
// once.
func refuses(t *testing.T, g *e2e.Gateway, app *e2e.App) {
	for range 5 {
		WantStatus(t, 200, "POST", g.URL+"/api/comments", "X-User-Id: refused")
	}
	before := app.Reached()
	r := WantStatus(t, 429, "POST", g.URL+"/api/comments", "X-User-Id: refused")
	if app.Reached() != before {
		t.Error("the refused request reached the application")
	}
	wait := r.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(wait); err != nil || seconds < 3500 || seconds > 3600 {
		t.Errorf("Retry-After %q; want the rest of an hour", wait)
	}
	WantHeaders(t, r, map[string]string{
		"Content-Type": "application/problem+json", "X-Koala-Decision": "deny", "X-Koala-Rule": "201", "X-Koala-Result": "2",
		"RateLimit-Policy": `"r201";q=5;w=3600`, "RateLimit": `"r201";r=0;t=` + wait, "RateLimit-Limit": "5",
		"RateLimit-Remaining": "0", "RateLimit-Reset": wait, "Retry-After": wait,
	})
	want := `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,"detail":"Too many comments","violated-policies":["r201"]}`
	if withoutRequestID(r.Body) != want {
		t.Errorf("body %s\nwant %s", r.Body, want)
	}
}

// requestID is the member of a problem document that names the request. Envoy gives every
// request an identifier.
var requestID = regexp.MustCompile(`,"request_id":"[0-9a-f-]{36}"}$`)

func withoutRequestID(body string) string { return requestID.ReplaceAllString(body, "}") }

// challenges checks that the client gets the challenge, as a body or a redirect.
func challenges(t *testing.T, g *e2e.Gateway, _ *e2e.App) {
	r := WantStatus(t, 403, "GET", g.URL+"/api/captcha")
	if want := `{"type":"about:blank","title":"Forbidden","status":403,"challenge":{"vcode_len":4,"vcode_type":0}}`; withoutRequestID(r.Body) != want {
		t.Errorf("body %s\nwant %s", r.Body, want)
	}
	WantHeaders(t, r, map[string]string{"X-Koala-Decision": "challenge", "X-Koala-Rule": "102", "Content-Type": "application/problem+json", "RateLimit": "", "Retry-After": ""})
	r = WantStatus(t, 302, "GET", g.URL+"/api/login")
	WantHeaders(t, r, map[string]string{"Location": "https://login.example/", "X-Koala-Rule": "103"})
	if types := r.Header.Values("Content-Type"); len(types) != 1 {
		t.Errorf("the redirect has the types %q; want one", types)
	}
}

// blocks checks that a direct rule refuses with 403, without a quota.
func blocks(t *testing.T, g *e2e.Gateway, _ *e2e.App) {
	for range 3 {
		r := WantStatus(t, 403, "GET", g.URL+"/", "X-User-Id: blocked")
		WantHeaders(t, r, map[string]string{"X-Koala-Rule": "101", "X-Koala-Decision": "deny", "RateLimit": "", "RateLimit-Limit": "", "Retry-After": ""})
		if want := `{"type":"about:blank","title":"Forbidden","status":403}`; withoutRequestID(r.Body) != want {
			t.Errorf("body %s\nwant %s", r.Body, want)
		}
	}
}

// passesBodies checks that uploads arrive complete, with or without a length, and
// that a refused upload neither hangs nor reaches the application.
func passesBodies(t *testing.T, g *e2e.Gateway, _ *e2e.App) {
	upload := bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	sum := sha256.Sum256(upload)
	for name, body := range map[string]io.Reader{
		"with its length": bytes.NewReader(upload), "in chunks": struct{ io.Reader }{bytes.NewReader(upload)}, // a plain Reader has no length
	} {
		r := SendBody(t, g.URL+"/api/upload", body)
		if got := arrived(t, r); r.Status != 200 || got.Body != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: %d, %+v; want 200 and the complete body", name, r.Status, got)
		}
		if r := SendBody(t, g.URL+"/api/upload", bytes.NewReader(upload[:1000]), "X-User-Id: blocked"); r.Status != 403 {
			t.Errorf("%s, refused: %d; want 403", name, r.Status)
		}
	}
}

// forgeries contains every header that a program between client and koalagate
// reads, in several spellings.
var forgeries = []string{
	"X-Real-IP: 198.51.100.66", "X-Forwarded-For: 198.51.100.66", "X-Forwarded-For: 198.51.100.66, 198.51.100.66",
	"X-Original-Forwarded-For: 198.51.100.66", "Forwarded: for=198.51.100.66;host=forged.example;proto=forged", "Client-IP: 198.51.100.66",
	"True-Client-IP: 198.51.100.66", "CF-Connecting-IP: 198.51.100.66", "X-Envoy-External-Address: 198.51.100.66",
	"X-Koala-Param-Act: forged", "x-koala-param-ACT: forged", "X_Koala_Param_Act: forged", "X-Koala-Param-Ip: 198.51.100.66",
	"X-Koala-Param-Door: forged", "X-Koala-Param-Path: /forged", "X-Koala-Param-Method: FORGED", "X-Koala-Param-Host: forged.example",
	"X-Original-Method: FORGED", "X-Original-URI: /forged", "X-Original-URL: /forged", "X-Forwarded-Method: FORGED", "X-Forwarded-Uri: /forged",
	"X-HTTP-Method-Override: FORGED", "X-Rewrite-URL: /forged", "X-Forwarded-Path: /forged", "X-Forwarded-Prefix: /forged",
	"X-Forwarded-Host: forged.example", "X-Forwarded-Proto: forged", "X-Forwarded-Scheme: forged",
	"X-Koala-Decision: allow", "X-Koala-Status: 200", "X-Koala-Accel: @forged", "X-Accel-Redirect: /forged", "X-Koala-Location: /forged",
	"RateLimit: forged", "Retry-After: 0",
}

// removal names headers of the gateway in Connection.
const removal = "Connection: keep-alive, X-Real-IP, X-Forwarded-For, X-Forwarded-Method, X-Forwarded-Uri, X-Original-URI, X-Original-Method, X-Koala-Param-Act"

// resistsForgery checks that no header of a client, alone or with all others, leads
// to another parameter or counter.
func resistsForgery(t *testing.T, g *e2e.Gateway, _ *e2e.App) {
	for _, line := range forgeries {
		if r := Send(t, "GET", g.URL+"/plain?_deny=native&act=forged", line); r.Status != 200 {
			t.Errorf("%s: %d by rule %q; want no effect", line, r.Status, r.Header.Get("X-Koala-Rule"))
		}
	}
	forgeries := slices.Clone(forgeries)
	switch r := Send(t, "GET", g.URL+"/plain?_deny=native&act=forged", removal); r.Status {
	case http.StatusOK:
		forgeries = append(forgeries, removal)
	case http.StatusBadRequest: // GW-154
	default:
		t.Errorf("%s: %d by rule %q; want no effect, or 400", removal, r.Status, r.Header.Get("X-Koala-Rule"))
	}
	if r := Send(t, "GET", g.URL+"/plain", forgeries...); r.Status != 200 {
		t.Errorf("all together: %d by rule %q; want no effect", r.Status, r.Header.Get("X-Koala-Rule"))
	}
	passed := 0
	for i := range 12 {
		r := Send(t, "GET", g.URL+"/by-address", append(forgeries, "X-Forwarded-For: 203.0.113."+strconv.Itoa(i))...)
		if r.Status == 200 {
			passed++
		}
	}
	if passed != 5 {
		t.Errorf("%d requests from one address passed with forged addresses; want 5", passed)
	}
	for _, path := range []string{"/api/./comments", "/api/x/../comments"} {
		WantRefused(t, "POST", g.URL+path, append(forgeries, "X-User-Id: refused")...)
	}
	for _, path := range []string{"//api/comments", "/api/%63omments", "/api/comments?a=b"} {
		// The user of the test of refusals has no comment left.
		if r := Send(t, "POST", g.URL+path, append(forgeries, "X-User-Id: refused")...); r.Status != 429 {
			t.Errorf("%s: %d; want 429, as for /api/comments", path, r.Status)
		}
	}
}

// sharesLimits checks that of twelve requests over two instances five pass.
func sharesLimits(t *testing.T, g *e2e.Gateway, app *e2e.App) {
	before := app.Reached()
	statuses := make([]int, 12)
	Concurrently(len(statuses), func(i int) {
		r, err := TrySend("POST", g.URL+"/api/comments", "X-User-Id: shared")
		if err != nil {
			t.Error(err)
		}
		statuses[i] = r.Status
	})
	passed := 0
	for _, s := range statuses {
		switch s {
		case 200:
			passed++
		case 429:
		default:
			t.Errorf("a status is %d; want 200 or 429", s)
		}
	}
	if reached := app.Reached() - before; passed != 5 || reached != 5 {
		t.Errorf("%d of 12 requests passed and %d reached the application; want 5", passed, reached)
	}
}
