package hostile_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// oddRequests returns requests that could make a gateway or its check fail. SHOP is a
// placeholder for an ordinary Host header.
func oddRequests() map[string]string {
	const get = "GET /a HTTP/1.1\r\nSHOP"
	headers := func(n, size int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "\r\nX-H%d: %s", i, strings.Repeat("x", size))
		}
		return b.String()
	}
	return map[string]string{
		"an ordinary one":            get,
		"a header of 15 kB":          get + headers(1, 15_000),
		"72 kB of headers":           get + headers(9, 8000),
		"100 kB of headers":          get + headers(13, 7900),
		"1 MB of headers":            get + headers(130, 8000),
		"as long as nginx takes":     "GET /" + strings.Repeat("%2F", 2600) + " HTTP/1.1\r\nHost: " + strings.Repeat("h", 8000) + headers(2, 8000),
		"as long as HAProxy takes":   get + headers(1, 14_900),
		"80 headers":                 get + headers(80, 1),
		"92 headers":                 get + headers(92, 1),
		"97 headers":                 get + headers(97, 1),
		"the same header 97 times":   get + strings.Repeat("\r\nX-H: x", 97),
		"1000 headers":               get + headers(1000, 1),
		"a control character":        get + "\r\nX-H: a\x01b",
		"a DEL":                      get + "\r\nX-H: a\x7fb",
		"bytes above ASCII":          get + "\r\nX-H: a\xffb",
		"a header without a name":    get + "\r\n: a",
		"a name with a bracket":      get + "\r\nX(H: a",
		"a name above ASCII":         get + "\r\nX\x80H: a",
		"a host of odd characters":   "GET /a HTTP/1.1\r\nHost: a\"b<>^`{|}",
		"a host above ASCII":         "GET /a HTTP/1.1\r\nHost: a\x80b",
		"two hosts":                  get + "\r\nHost: other.example",
		"no host":                    "GET /a HTTP/1.0",
		"another method":             "REPORT /a HTTP/1.1\r\nSHOP",
		"a method that is none":      "FOO! /a HTTP/1.1\r\nSHOP",
		"the absolute form":          "GET http://shop.example/a HTTP/1.1\r\nSHOP",
		"a fragment":                 "GET /a#b HTTP/1.1\r\nSHOP",
		"a broken escape":            "GET /a%zz HTTP/1.1\r\nSHOP",
		"a NUL":                      "GET /a%00 HTTP/1.1\r\nSHOP",
		"a path above ASCII":         "GET /a\xff HTTP/1.1\r\nSHOP",
		"a path of odd characters":   "GET /a\"<>\\^`{|} HTTP/1.1\r\nSHOP",
		"a placeholder":              "GET /{http.request.uri} HTTP/1.1\r\nSHOP",
		"an upgrade":                 get + "\r\nConnection: Upgrade\r\nUpgrade: websocket",
		"an upgrade to HTTP/2":       get + "\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA",
		"Expect":                     "POST /a HTTP/1.1\r\nSHOP\r\nExpect: 100-continue\r\nContent-Length: 0",
		"an Expect of another kind":  get + "\r\nExpect: a miracle",
		"trailers":                   get + "\r\nTE: trailers\r\nTrailer: X-H",
		"a coding that nobody knows": get + "\r\nTransfer-Encoding: gzip",
		"a condition and a range":    get + "\r\nRange: bytes=0-0\r\nIf-None-Match: *",
		"the gateway's headers are hop by hop": get + "\r\nConnection: Host, X-Real-IP, X-Forwarded-For, X-Forwarded-Method, " +
			"X-Forwarded-Uri, X-Original-Method, X-Original-URI, X-Koala-Accel, Content-Length",
	}
}

// Every request of a client is either decided and counted, or refused, and later
// requests are answered. The samples let requests through if the check fails: no
// client's request may cause that.
func TestOddRequestsThroughGateways(t *testing.T) {
	t.Parallel()
	tryOddRequests(rig.NewFixture(t))
}

// The same holds for samples that authenticate their clients.
func TestOddRequestsOfUsersThroughGateways(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.Stage.Authenticate("ann")
	tryOddRequests(h)
}

func tryOddRequests(h *rig.Fixture) {
	t := h.T
	k := h.Koalagate("--rules", h.File("rules.conf", rig.OneCounter))
	app := h.App()
	for name, g := range map[string]*e2e.Gateway{
		"envoy": h.Envoy(app, k), "envoy over HTTP": h.EnvoyHTTP(app, k), "nginx": h.Nginx(app, k), "accel": rig.NginxWith("nginx/accel.conf")(h, app, k.HTTP),
		"caddy": rig.CaddyWith()(h, app, k.HTTP), "haproxy": rig.HAProxyWith()(h, app, k.HTTP),
	} {
		for what, request := range oddRequests() {
			reached, counted := app.Reached(), rig.HitsOf(t, k)
			status, err := sendRaw(g, request)
			isDecided := rig.HitsOf(t, k) != counted
			switch {
			case err != nil:
				t.Errorf("%s, %s: %v; want an answer", name, what, err)
			case app.Reached() != reached && !isDecided:
				t.Errorf("%s, %s: %d; the request reached the application, but was not counted", name, what, status)
			case status >= 500 && status != http.StatusNotImplemented && !isDecided:
				t.Errorf("%s, %s: %d; want a decision or a refusal", name, what, status)
			case status < 400 && !isDecided:
				t.Errorf("%s, %s: %d; want the request counted", name, what, status)
			}
			rig.WantStatus(t, 200, "GET", g.URL+"/healthz")
		}
		rig.WantStatus(t, 200, "GET", g.URL+"/a", g.Credentials()...)
	}
}

// Some applications accept `post` as POST, and Caddy and HAProxy pass it on as received,
// so it meets the rules on POST. nginx and Envoy refuse such methods.
func TestMethodsMeetTheirRulesInAnyCase(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	k := h.Koalagate("--rules", h.File("rules.conf", `
[params]
other : gateway
[routes]
POST /a : act=post
[rules]
rule : [direct] [act=post]             [] [result=2; return=101]
rule : [direct] [method=POST; path=/b] [] [result=2; return=102]
rule : [direct] [other=none]           [] [result=2; return=103]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`))
	app := h.App()
	for name, g := range map[string]*e2e.Gateway{
		"envoy": h.Envoy(app, k), "envoy over HTTP": h.EnvoyHTTP(app, k), "nginx": h.Nginx(app, k), "accel": rig.NginxWith("nginx/accel.conf")(h, app, k.HTTP),
		"caddy": rig.CaddyWith()(h, app, k.HTTP), "haproxy": rig.HAProxyWith()(h, app, k.HTTP),
	} {
		for _, path := range []string{"/a", "/b"} {
			for _, method := range []string{"POST", "post", "PoSt"} {
				isRefused := method != "POST" && !slices.Contains([]string{"caddy", "haproxy"}, name)
				reached := app.Reached()
				status, err := sendRaw(g, method+" "+path+" HTTP/1.1\r\nSHOP\r\nContent-Length: 0")
				switch {
				case isRefused && err == nil && status < http.StatusBadRequest, app.Reached() != reached:
					t.Errorf("%s, %s %s: %d, and it reached the application; want a refusal", name, method, path, status)
				case !isRefused && (err != nil || status != http.StatusForbidden):
					t.Errorf("%s, %s %s: %d, %v; want the rule's 403", name, method, path, status, err)
				}
			}
			if status, err := sendRaw(g, "get "+path+" HTTP/1.1\r\nSHOP"); err == nil && status >= http.StatusInternalServerError && status != http.StatusNotImplemented {
				t.Errorf("%s, get %s: %d; want an answer of the gateway or of the application", name, path, status)
			}
			rig.WantStatus(t, http.StatusOK, "GET", g.URL+path)
		}
	}
}

// sendRaw sends a request byte for byte, except that its client authenticates if the
// gateway requires it, and returns the final status.
func sendRaw(g *e2e.Gateway, request string) (int, error) {
	return sendRawFor(g, request, 20*time.Second)
}

// sendRawFor is like sendRaw, with a maximum time for the answer.
func sendRawFor(g *e2e.Gateway, request string, wait time.Duration) (int, error) {
	if line, headers, found := strings.Cut(request, "\r\n"); g.Authorization != "" {
		request = line + "\r\n" + g.Authorization
		if found {
			request += "\r\n" + headers
		}
	}
	return sendRawFrom("127.0.0.1", g, request, wait)
}

// sendRawFrom is like sendRawFor, from an address, and does not authenticate.
func sendRawFrom(address string, g *e2e.Gateway, request string, wait time.Duration) (int, error) {
	conn, err := rig.Entrance{Gateway: g}.DialFrom(address, wait)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return rig.ExchangeRaw(conn, strings.Replace(request, "SHOP", "Host: shop.example", 1))
}
