package nginx_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/nginx"
	"github.com/koalagate/koalagate/rules"
)

const reservations = `
[rules]
rule : [count] [path=/login; ip=+; response.status=401] [time=600; count=1] [result=2; return=3]
rule : [count] [ip=+] [time=3600; count=1000; settle=600] [result=2; return=1]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// reserving is a door whose checks have receipts.
type reserving struct {
	http.Handler
	t *testing.T
}

func openReserving(t *testing.T) reserving {
	t.Helper()
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(reservations)}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	return reserving{nginx.New(nginx.Options{Engine: engine.New(set), TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}), t}
}

// send sends a request with headers `Name: value`.
func (d reserving) send(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w
}

// headerOf returns the value of a header in the spelling that the door sends.
func headerOf(w *httptest.ResponseRecorder, name string) string {
	return strings.Join(w.Header()[name], ",")
}

// check returns the answer to the check of a request.
func (d reserving) check(uri string) *httptest.ResponseRecorder {
	return d.send("GET", "/v1/auth-request", "", "X-Original-Method: GET", "X-Original-URI: "+uri, "X-Real-IP: 198.51.100.7")
}

func TestSettlementsOverHTTP(t *testing.T) {
	for name, test := range map[string]struct {
		settle func(d reserving, receipt string) *httptest.ResponseRecorder
		status int
		left   string // after a check more
	}{
		"headers": {func(d reserving, r string) *httptest.ResponseRecorder {
			return d.send("POST", "/v1/settle", "", "X-Koala-Receipt: "+r, "X-Koala-Hits: 600", "X-Koala-Response-Status: 200")
		}, 204, "399"},
		"without hits": {func(d reserving, r string) *httptest.ResponseRecorder {
			return d.send("POST", "/v1/settle", "", "X-Koala-Receipt: "+r)
		}, 204, "998"},
		"a document": {func(d reserving, r string) *httptest.ResponseRecorder {
			return d.send("POST", "/v1/settle", `{"receipt": "`+r+`", "hits": 6e2, "response": {"status": 200, "cached": true, "none": null}}`)
		}, 204, "399"},
		"a document with texts": {func(d reserving, r string) *httptest.ResponseRecorder {
			return d.send("POST", "/v1/settle", `{"receipt": "`+r+`", "hits": "600", "response": {"status": "200"}}`)
		}, 204, "399"},
		"the client's query": {func(d reserving, r string) *httptest.ResponseRecorder {
			return d.send("POST", "/v1/settle?next=/&receipt=x", "", "X-Koala-Receipt: "+r, "X-Koala-Hits: 600")
		}, 204, "399"},
		"a renewal with the client's query": {func(d reserving, r string) *httptest.ResponseRecorder {
			return d.send("POST", "/v1/renew?", "", "X-Koala-Receipt: "+r)
		}, 204, "998"},
		"a receipt in the query": {func(d reserving, r string) *httptest.ResponseRecorder {
			return d.send("POST", "/v1/settle?receipt="+r, "")
		}, 400, "998"},
		"a renewal": {func(d reserving, r string) *httptest.ResponseRecorder {
			return d.send("POST", "/v1/renew", "", "X-Koala-Receipt: "+r)
		}, 204, "998"},
		"twice": {func(d reserving, r string) *httptest.ResponseRecorder {
			d.send("POST", "/v1/settle", "", "X-Koala-Receipt: "+r, "X-Koala-Hits: 0")
			return d.send("POST", "/v1/settle", "", "X-Koala-Receipt: "+r, "X-Koala-Hits: 600")
		}, 404, "999"},
		"malformed hits spend nothing": {func(d reserving, r string) *httptest.ResponseRecorder {
			if w := d.send("POST", "/v1/settle", "", "X-Koala-Receipt: "+r, "X-Koala-Hits: -5"); w.Code != 400 {
				d.t.Errorf("hits of -5: %d; want 400", w.Code)
			}
			return d.send("POST", "/v1/settle", "", "X-Koala-Receipt: "+r, "X-Koala-Hits: 600")
		}, 204, "399"},
		"a list of hits": {func(d reserving, r string) *httptest.ResponseRecorder {
			return d.send("POST", "/v1/settle", `{"receipt": "`+r+`", "hits": [600]}`)
		}, 400, "998"},
		"a forged receipt": {func(d reserving, r string) *httptest.ResponseRecorder {
			return d.send("POST", "/v1/settle", "", "X-Koala-Receipt: p"+strings.Repeat("A", len(r)-1))
		}, 404, "998"},
		"a malformed receipt": {func(d reserving, _ string) *httptest.ResponseRecorder {
			return d.send("POST", "/v1/settle", "", "X-Koala-Receipt: a b")
		}, 400, "998"},
		"no receipt":  {func(d reserving, _ string) *httptest.ResponseRecorder { return d.send("POST", "/v1/settle", "") }, 400, "998"},
		"no document": {func(d reserving, _ string) *httptest.ResponseRecorder { return d.send("POST", "/v1/settle", "[]") }, 400, "998"},
		"too large": {func(d reserving, r string) *httptest.ResponseRecorder {
			return d.send("POST", "/v1/settle", `{"receipt": "`+r+`", "other": "`+strings.Repeat("x", 20<<10)+`"}`)
		}, 400, "998"},
		"GET": {func(d reserving, r string) *httptest.ResponseRecorder {
			return d.send("GET", "/v1/settle", "", "X-Koala-Receipt: "+r)
		}, 405, "998"},
	} {
		t.Run(name, func(t *testing.T) {
			d := openReserving(t)
			d.t = t
			receipt := d.check("/").Header().Get("X-Koala-Receipt")
			if receipt == "" {
				t.Fatal("the check has no receipt")
			}
			if w := test.settle(d, receipt); w.Code != test.status {
				t.Errorf("%d, %s; want %d", w.Code, w.Body, test.status)
			}
			if got := headerOf(d.check("/"), "RateLimit"); !strings.Contains(got, ";r="+test.left+";") {
				t.Errorf("one more check has %s; want %s left", got, test.left)
			}
		})
	}
}

// A failed login is known by the status that the gateway reports.
func TestStatusOfTheResponseIsCharged(t *testing.T) {
	d := openReserving(t)
	for i, status := range []string{"200", "401"} {
		w := d.check("/login")
		if w.Code != http.StatusOK {
			t.Fatalf("login %d: %d; want 200", i, w.Code)
		}
		d.send("POST", "/v1/settle", "", "X-Koala-Receipt: "+w.Header().Get("X-Koala-Receipt"), "X-Koala-Response-Status: "+status)
	}
	if w := d.check("/login"); w.Code != http.StatusForbidden {
		t.Errorf("after a failed login: %d; want 403", w.Code)
	}
}

func TestSettlementsComeFromTrustedPeers(t *testing.T) {
	d := openReserving(t)
	receipt := d.check("/").Header().Get("X-Koala-Receipt")
	r := httptest.NewRequest(http.MethodPost, "/v1/settle", http.NoBody)
	r.RemoteAddr = "203.0.113.9:1"
	r.Header.Set("X-Koala-Receipt", receipt)
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	if w.Code != http.StatusForbidden {
		t.Errorf("a stranger settles: %d; want 403", w.Code)
	}
}
