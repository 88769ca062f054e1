package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// hostileFrames returns HTTP/2 requests that HTTP/1.1 cannot express: with two authorities,
// with fields in odd places or with odd names and values, or in odd frames.
func hostileFrames() (list []hostileRequest) {
	add := func(isPlain bool, r h2Request) { list = append(list, hostileRequest{plain: isPlain, only: &r}) }
	const shop, blocked = "shop.example", "blocked.example"
	get := func(more ...field) h2Request {
		return h2Request{fields: append([]field{{":method", "GET"}, {":scheme", "http"}, {":authority", shop}, {":path", "/a"}}, more...)}
	}
	add(true, get())
	add(true, get(field{"cookie", "a=1"}, field{"cookie", "b=2"}, field{"te", "trailers"}))
	for _, order := range hostileOrders {
		add(false, h2Request{fields: order})
	}
	for _, host := range []string{shop, blocked, "SHOP.example", "shop.example:80", "", shop + "," + blocked} {
		add(false, get(field{"host", host}))
		add(false, get(field{":authority", host}))
		add(false, get(field{"host", shop}, field{"host", host}))
		add(false, get(field{"host", host}, field{"host", shop}))
		for _, authority := range []string{"", blocked, host} {
			add(false, h2Request{fields: []field{{":method", "GET"}, {":scheme", "http"}, {":authority", authority}, {":path", "/a"}, {"host", host}}})
		}
	}
	for _, host := range hostileHosts { // without an authority
		add(false, h2Request{fields: []field{{":method", "GET"}, {":scheme", "http"}, {":path", "/a"}, {"host", host}}})
	}
	for _, path := range []string{"", "a", "*", "?", "#", "//", "/a\x00", "/a\r\nx-user-id: neighbor", "/a HTTP/1.1\r\nHost: blocked.example\r\nX: "} {
		for _, method := range []string{"GET", "OPTIONS", "CONNECT"} {
			add(false, h2Request{fields: []field{{":method", method}, {":scheme", "http"}, {":authority", shop}, {":path", path}}})
		}
	}
	for _, method := range []string{"get", "GET /healthz", "GET /healthz HTTP/1.1\r\nX:", "GET\r\n", "", "CONNECT", "FOO", "PRI", "GET\x00", "\xff"} {
		add(false, h2Request{fields: []field{{":method", method}, {":scheme", "http"}, {":authority", shop}, {":path", "/a"}}})
	}
	for _, scheme := range []string{"https", "HTTP", "gopher", "", "http://blocked.example/", "http:", "ws"} {
		add(false, h2Request{fields: []field{{":method", "GET"}, {":scheme", scheme}, {":authority", shop}, {":path", "/a"}}})
	}
	for _, more := range hostileFieldLines() {
		add(false, get(more...))
	}
	for _, protocol := range []string{"websocket", "connect-udp", "HTTP/2", ""} {
		for _, path := range []string{"/a", "/healthz", "/downloads/f"} {
			add(false, h2Request{fields: []field{{":method", "CONNECT"}, {":protocol", protocol}, {":scheme", "https"}, {":authority", shop}, {":path", path}, {"sec-websocket-version", "13"}}})
			add(false, h2Request{fields: []field{{":method", "GET"}, {":protocol", protocol}, {":scheme", "https"}, {":authority", shop}, {":path", path}}})
		}
	}
	add(false, h2Request{fields: []field{{":method", "CONNECT"}, {":authority", shop + ":80"}}})
	add(false, h2Request{fields: []field{{":method", "CONNECT"}, {":authority", blocked + ":80"}}, body: "GET /smuggled HTTP/1.1\r\nHost: blocked.example\r\n\r\n"})
	return append(list, hostileContents()...)
}

// hostileOrders lists pseudo-header fields in odd places.
var hostileOrders = [][]field{
	{{":path", "/a"}, {":authority", "shop.example"}, {":scheme", "http"}, {":method", "GET"}},
	{{":method", "GET"}, {":scheme", "http"}, {":authority", "shop.example"}, {":path", "/a"}, {":path", "/healthz"}},
	{{":method", "GET"}, {":scheme", "http"}, {":authority", "shop.example"}, {":path", "/healthz"}, {":path", "/a"}},
	{{":method", "GET"}, {":method", "POST"}, {":scheme", "http"}, {":authority", "shop.example"}, {":path", "/a"}},
	{{":method", "GET"}, {":scheme", "http"}, {":scheme", "https"}, {":authority", "shop.example"}, {":path", "/a"}},
	{{"x-a", "b"}, {":method", "GET"}, {":scheme", "http"}, {":authority", "shop.example"}, {":path", "/a"}},
	{{":method", "GET"}, {":scheme", "http"}, {":authority", "shop.example"}, {"x-a", "b"}, {":path", "/a"}},
	{{"host", "blocked.example"}, {":method", "GET"}, {":scheme", "http"}, {":path", "/a"}, {":authority", "shop.example"}},
	{{":method", "GET"}, {":scheme", "http"}, {":authority", "shop.example"}},
	{{":scheme", "http"}, {":authority", "shop.example"}, {":path", "/a"}},
	{{":method", "GET"}, {":authority", "shop.example"}, {":path", "/a"}},
	{{":method", "GET"}, {":scheme", "http"}, {":path", "/a"}},
	{{":method", "GET"}, {":scheme", "http"}, {":authority", "shop.example"}, {":path", "/a"}, {":status", "200"}},
	{{":method", "GET"}, {":scheme", "http"}, {":authority", "shop.example"}, {":path", "/a"}, {":unknown", "1"}},
	{{":method", "GET"}, {":scheme", "http"}, {":authority", "shop.example"}, {":path", "/a"}, {":", "1"}},
	{{":method", "GET"}, {":scheme", "http"}, {":authority", "shop.example"}, {":path", "/a"}, {":Path", "/healthz"}},
}

// hostileFieldLines lists fields that HTTP/2 forbids, and names and values that HTTP/1.1
// would read as several lines.
func hostileFieldLines() (lists [][]field) {
	for _, line := range hostileHeaders {
		name, value, _ := strings.Cut(line, ": ")
		lists = append(lists, []field{{name, value}}, []field{{strings.ToLower(name), value}})
	}
	for _, value := range []string{"x-user-id", "close", "keep-alive", "upgrade", "x-forwarded-for, host", "x-koala-param-act"} {
		lists = append(lists, []field{{"connection", value}}, []field{{"proxy-connection", value}}, []field{{"keep-alive", value}})
	}
	return append(
		lists,
		[]field{{"transfer-encoding", "chunked"}},
		[]field{{"transfer-encoding", "identity"}, {"content-length", "0"}},
		[]field{{"upgrade", "h2c"}},
		[]field{{"te", "gzip"}},
		[]field{{"te", "trailers, gzip"}},
		[]field{{"content-length", "5"}},
		[]field{{"content-length", "0"}, {"content-length", "5"}},
		[]field{{"content-length", "-1"}},
		[]field{{"expect", "100-continue"}},
		[]field{{"x-a", "b\r\nx-user-id: neighbor"}},
		[]field{{"x-a", "b\nx-user-id: neighbor"}},
		[]field{{"x-a", "b\x00"}},
		[]field{{"x-a\r\nx-user-id", "neighbor"}},
		[]field{{"x-user-id:", "neighbor"}},
		[]field{{"x-user-id: neighbor\r\nx-a", "b"}},
		[]field{{"x-user-id ", "neighbor"}},
		[]field{{" x-user-id", "neighbor"}},
		[]field{{"x user id", "neighbor"}},
		[]field{{"X-User-Id", "neighbor"}},
		[]field{{"", "neighbor"}},
		[]field{{"x-user-id\x00", "neighbor"}},
		[]field{{"x-user-id", "neighbor"}, {"x-user-id", "other"}},
		[]field{{"cookie", "a=1"}, {"cookie", "x-user-id=neighbor"}, {"cookie", "a=2; b"}},
		[]field{{"http2-settings", "AAMAAABkAARAAAAAAAIAAAAA"}},
	)
}

// hostileContents returns requests with bodies, trailers and frames of odd sizes.
func hostileContents() (list []hostileRequest) {
	post := func(more ...field) []field {
		return append([]field{{":method", "POST"}, {":scheme", "http"}, {":authority", "shop.example"}, {":path", "/a"}}, more...)
	}
	for _, r := range []h2Request{
		{fields: post(), body: "abc"},
		{fields: post(), piece: 1},
		{fields: post(), body: "abc", trailers: []field{{"x-a", "b"}}, piece: 1},
		{fields: post(field{"x-long", strings.Repeat("x", 14_000)}), piece: 700},
		{fields: post(field{"x-long", strings.Repeat("x", 70_000)})},
		{fields: post(field{"x-long", strings.Repeat("x", 1_000_000)})},
		{fields: append(post(), many(97)...)},
		{fields: append(post(), many(3000)...), piece: 1000},
		{fields: post(field{"content-length", "2"}), body: "abc"},
		{fields: post(field{"content-length", "9"}), body: "abc"},
		{fields: post(field{"content-length", "3"}, field{"content-length", "9"}), body: "abc"},
		{fields: post(), body: "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: blocked.example\r\n\r\n"},
		{fields: post(field{"transfer-encoding", "chunked"}), body: "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: blocked.example\r\n\r\n"},
		{fields: post(field{"content-length", "0"}), body: "GET /smuggled HTTP/1.1\r\nHost: blocked.example\r\n\r\n"},
		{fields: post(), trailers: []field{{":path", "/healthz"}}},
		{fields: post(), body: "abc", trailers: []field{{"x-user-id", "neighbor"}, {"host", "blocked.example"}}},
		{fields: post(field{"te", "trailers"}, field{"trailer", "x-user-id"}), body: "abc", trailers: []field{{"x-user-id", "neighbor"}}},
		{fields: post(), body: "abc", trailers: []field{{"x-http-method-override", "DELETE"}, {"x-koala-param-act", "forged"}}},
		{fields: post(), body: "abc", trailers: []field{{"transfer-encoding", "chunked"}, {"content-length", "5"}}},
		{fields: post(field{"expect", "100-continue"}), body: "abc"},
	} {
		list = append(list, hostileRequest{only: &r})
	}
	return list
}

// many returns fields of different names.
func many(n int) (list []field) {
	for i := range n {
		list = append(list, field{fmt.Sprintf("x-h%d", i), "x"})
	}
	return list
}

// The samples accept HTTP/2 without TLS only where they are made for it: at HAProxy's, each
// connection would have many requests, and maxconn limits connections.
func TestHostileHTTP2WithoutTLSIsForEnvoyAlone(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	k := h.koalagate("--rules", h.file("rules.conf", hostileRules))
	app := h.app()
	for _, sample := range hostileSamples() {
		e := entrance{&sample, sample.start(h, app.Address, k), transports[1]}
		reached := app.Reached()
		status, err := e.send(hostileFrames()[0], "x", 20*time.Second)
		accepts := err == nil && status == http.StatusOK && app.Reached() == reached+1
		if accepts != sample.acceptsPriorKnowledge {
			t.Errorf("%s, HTTP/2 without TLS: %d, %v; want it accepted: %t", sample.name, status, err, sample.acceptsPriorKnowledge)
		}
	}
}
