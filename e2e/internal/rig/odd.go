package rig

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
)

// OddRequests returns requests that could make a gateway or its check fail. SHOP is a
// placeholder for an ordinary Host header.
func OddRequests() map[string]string {
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

// SendRaw sends a request byte for byte, except that its client authenticates if the
// gateway requires it, and returns the final status.
func SendRaw(g *e2e.Gateway, request string) (int, error) {
	return SendRawFor(g, request, 20*time.Second)
}

// SendRawFor is like SendRaw, with a maximum time for the answer.
func SendRawFor(g *e2e.Gateway, request string, wait time.Duration) (int, error) {
	if line, headers, found := strings.Cut(request, "\r\n"); g.Authorization != "" {
		request = line + "\r\n" + g.Authorization
		if found {
			request += "\r\n" + headers
		}
	}
	return SendRawFrom("127.0.0.1", g, request, wait)
}

// SendRawFrom is like SendRawFor, from an address, and does not authenticate.
func SendRawFrom(address string, g *e2e.Gateway, request string, wait time.Duration) (int, error) {
	conn, err := Entrance{Gateway: g}.DialFrom(address, wait)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return ExchangeRaw(conn, strings.Replace(request, "SHOP", "Host: shop.example", 1))
}

// TryOddRequests holds that a gateway with the rules OneCounter answers each odd request, that none
// reaches the application without being counted, and that the gateway answers later requests.
// mayFail accepts 5xx without a decision: of a gateway that passes on headers of any size, whose
// check then ends early.
func TryOddRequests(t *testing.T, name string, g *e2e.Gateway, app *e2e.App, k *e2e.Koalagate, mayFail bool) {
	t.Helper()
	for what, request := range OddRequests() {
		reached, counted := app.Reached(), HitsOf(t, k)
		status, err := SendRaw(g, request)
		isDecided := HitsOf(t, k) != counted
		switch {
		case err != nil:
			t.Errorf("%s, %s: %v; want an answer", name, what, err)
		case app.Reached() != reached && !isDecided:
			t.Errorf("%s, %s: %d; the request reached the application, but was not counted", name, what, status)
		case status >= 500 && status != http.StatusNotImplemented && !isDecided && !mayFail:
			t.Errorf("%s, %s: %d; want a decision or a refusal", name, what, status)
		case status < 400 && !isDecided:
			t.Errorf("%s, %s: %d; want the request counted", name, what, status)
		}
		WantStatus(t, 200, "GET", g.URL+"/healthz")
	}
	WantStatus(t, 200, "GET", g.URL+"/a", g.Credentials()...)
}
