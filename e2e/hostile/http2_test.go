package hostile_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// hostileFrames returns HTTP/2 requests that HTTP/1.1 cannot express: with two authorities,
// with fields in odd places or with odd names and values, or in odd frames.
func hostileFrames() (list []rig.HostileRequest) {
	add := func(isPlain bool, r rig.H2Request) { list = append(list, rig.HostileRequest{Plain: isPlain, Only: &r}) }
	const shop, blocked = "shop.example", "blocked.example"
	get := func(more ...rig.Field) rig.H2Request {
		return rig.H2Request{Fields: append([]rig.Field{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: shop}, {Name: ":path", Value: "/a"}}, more...)}
	}
	add(true, get())
	add(true, get(rig.Field{Name: "cookie", Value: "a=1"}, rig.Field{Name: "cookie", Value: "b=2"}, rig.Field{Name: "te", Value: "trailers"}))
	for _, order := range hostileOrders {
		add(false, rig.H2Request{Fields: order})
	}
	for _, host := range []string{shop, blocked, "SHOP.example", "shop.example:80", "", shop + "," + blocked} {
		add(false, get(rig.Field{Name: "host", Value: host}))
		add(false, get(rig.Field{Name: ":authority", Value: host}))
		add(false, get(rig.Field{Name: "host", Value: shop}, rig.Field{Name: "host", Value: host}))
		add(false, get(rig.Field{Name: "host", Value: host}, rig.Field{Name: "host", Value: shop}))
		for _, authority := range []string{"", blocked, host} {
			add(false, rig.H2Request{Fields: []rig.Field{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: authority}, {Name: ":path", Value: "/a"}, {Name: "host", Value: host}}})
		}
	}
	for _, host := range hostileHosts { // without an authority
		add(false, rig.H2Request{Fields: []rig.Field{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: "/a"}, {Name: "host", Value: host}}})
	}
	for _, path := range []string{"", "a", "*", "?", "#", "//", "/a\x00", "/a\r\nx-user-id: neighbor", "/a HTTP/1.1\r\nHost: blocked.example\r\nX: "} {
		for _, method := range []string{"GET", "OPTIONS", "CONNECT"} {
			add(false, rig.H2Request{Fields: []rig.Field{{Name: ":method", Value: method}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: shop}, {Name: ":path", Value: path}}})
		}
	}
	for _, method := range []string{"get", "GET /healthz", "GET /healthz HTTP/1.1\r\nX:", "GET\r\n", "", "CONNECT", "FOO", "PRI", "GET\x00", "\xff"} {
		add(false, rig.H2Request{Fields: []rig.Field{{Name: ":method", Value: method}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: shop}, {Name: ":path", Value: "/a"}}})
	}
	for _, scheme := range []string{"https", "HTTP", "gopher", "", "http://blocked.example/", "http:", "ws"} {
		add(false, rig.H2Request{Fields: []rig.Field{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: scheme}, {Name: ":authority", Value: shop}, {Name: ":path", Value: "/a"}}})
	}
	for _, more := range hostileFieldLines() {
		add(false, get(more...))
	}
	for _, protocol := range []string{"websocket", "connect-udp", "HTTP/2", ""} {
		for _, path := range []string{"/a", "/healthz", "/downloads/f"} {
			add(false, rig.H2Request{Fields: []rig.Field{{Name: ":method", Value: "CONNECT"}, {Name: ":protocol", Value: protocol}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: shop}, {Name: ":path", Value: path}, {Name: "sec-websocket-version", Value: "13"}}})
			add(false, rig.H2Request{Fields: []rig.Field{{Name: ":method", Value: "GET"}, {Name: ":protocol", Value: protocol}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: shop}, {Name: ":path", Value: path}}})
		}
	}
	add(false, rig.H2Request{Fields: []rig.Field{{Name: ":method", Value: "CONNECT"}, {Name: ":authority", Value: shop + ":80"}}})
	add(false, rig.H2Request{Fields: []rig.Field{{Name: ":method", Value: "CONNECT"}, {Name: ":authority", Value: blocked + ":80"}}, Body: "GET /smuggled HTTP/1.1\r\nHost: blocked.example\r\n\r\n"})
	return append(list, hostileContents()...)
}

// hostileOrders lists pseudo-header fields in odd places.
var hostileOrders = [][]rig.Field{
	{{Name: ":path", Value: "/a"}, {Name: ":authority", Value: "shop.example"}, {Name: ":scheme", Value: "http"}, {Name: ":method", Value: "GET"}},
	{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "shop.example"}, {Name: ":path", Value: "/a"}, {Name: ":path", Value: "/healthz"}},
	{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "shop.example"}, {Name: ":path", Value: "/healthz"}, {Name: ":path", Value: "/a"}},
	{{Name: ":method", Value: "GET"}, {Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "shop.example"}, {Name: ":path", Value: "/a"}},
	{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "shop.example"}, {Name: ":path", Value: "/a"}},
	{{Name: "x-a", Value: "b"}, {Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "shop.example"}, {Name: ":path", Value: "/a"}},
	{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "shop.example"}, {Name: "x-a", Value: "b"}, {Name: ":path", Value: "/a"}},
	{{Name: "host", Value: "blocked.example"}, {Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: "/a"}, {Name: ":authority", Value: "shop.example"}},
	{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "shop.example"}},
	{{Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "shop.example"}, {Name: ":path", Value: "/a"}},
	{{Name: ":method", Value: "GET"}, {Name: ":authority", Value: "shop.example"}, {Name: ":path", Value: "/a"}},
	{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: "/a"}},
	{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "shop.example"}, {Name: ":path", Value: "/a"}, {Name: ":status", Value: "200"}},
	{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "shop.example"}, {Name: ":path", Value: "/a"}, {Name: ":unknown", Value: "1"}},
	{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "shop.example"}, {Name: ":path", Value: "/a"}, {Name: ":", Value: "1"}},
	{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "shop.example"}, {Name: ":path", Value: "/a"}, {Name: ":Path", Value: "/healthz"}},
}

// hostileFieldLines lists fields that HTTP/2 forbids, and names and values that HTTP/1.1
// would read as several lines.
func hostileFieldLines() (lists [][]rig.Field) {
	for _, line := range hostileHeaders {
		name, value, _ := strings.Cut(line, ": ")
		lists = append(lists, []rig.Field{{Name: name, Value: value}}, []rig.Field{{Name: strings.ToLower(name), Value: value}})
	}
	for _, value := range []string{"x-user-id", "close", "keep-alive", "upgrade", "x-forwarded-for, host", "x-koala-param-act"} {
		lists = append(lists, []rig.Field{{Name: "connection", Value: value}}, []rig.Field{{Name: "proxy-connection", Value: value}}, []rig.Field{{Name: "keep-alive", Value: value}})
	}
	return append(
		lists,
		[]rig.Field{{Name: "transfer-encoding", Value: "chunked"}},
		[]rig.Field{{Name: "transfer-encoding", Value: "identity"}, {Name: "content-length", Value: "0"}},
		[]rig.Field{{Name: "upgrade", Value: "h2c"}},
		[]rig.Field{{Name: "te", Value: "gzip"}},
		[]rig.Field{{Name: "te", Value: "trailers, gzip"}},
		[]rig.Field{{Name: "content-length", Value: "5"}},
		[]rig.Field{{Name: "content-length", Value: "0"}, {Name: "content-length", Value: "5"}},
		[]rig.Field{{Name: "content-length", Value: "-1"}},
		[]rig.Field{{Name: "expect", Value: "100-continue"}},
		[]rig.Field{{Name: "x-a", Value: "b\r\nx-user-id: neighbor"}},
		[]rig.Field{{Name: "x-a", Value: "b\nx-user-id: neighbor"}},
		[]rig.Field{{Name: "x-a", Value: "b\x00"}},
		[]rig.Field{{Name: "x-a\r\nx-user-id", Value: "neighbor"}},
		[]rig.Field{{Name: "x-user-id:", Value: "neighbor"}},
		[]rig.Field{{Name: "x-user-id: neighbor\r\nx-a", Value: "b"}},
		[]rig.Field{{Name: "x-user-id ", Value: "neighbor"}},
		[]rig.Field{{Name: " x-user-id", Value: "neighbor"}},
		[]rig.Field{{Name: "x user id", Value: "neighbor"}},
		[]rig.Field{{Name: "X-User-Id", Value: "neighbor"}},
		[]rig.Field{{Name: "", Value: "neighbor"}},
		[]rig.Field{{Name: "x-user-id\x00", Value: "neighbor"}},
		[]rig.Field{{Name: "x-user-id", Value: "neighbor"}, {Name: "x-user-id", Value: "other"}},
		[]rig.Field{{Name: "cookie", Value: "a=1"}, {Name: "cookie", Value: "x-user-id=neighbor"}, {Name: "cookie", Value: "a=2; b"}},
		[]rig.Field{{Name: "http2-settings", Value: "AAMAAABkAARAAAAAAAIAAAAA"}},
	)
}

// hostileContents returns requests with bodies, trailers and frames of odd sizes.
func hostileContents() (list []rig.HostileRequest) {
	post := func(more ...rig.Field) []rig.Field {
		return append([]rig.Field{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "shop.example"}, {Name: ":path", Value: "/a"}}, more...)
	}
	for _, r := range []rig.H2Request{
		{Fields: post(), Body: "abc"},
		{Fields: post(), Piece: 1},
		{Fields: post(), Body: "abc", Trailers: []rig.Field{{Name: "x-a", Value: "b"}}, Piece: 1},
		{Fields: post(rig.Field{Name: "x-long", Value: strings.Repeat("x", 14_000)}), Piece: 700},
		{Fields: post(rig.Field{Name: "x-long", Value: strings.Repeat("x", 70_000)})},
		{Fields: post(rig.Field{Name: "x-long", Value: strings.Repeat("x", 1_000_000)})},
		{Fields: append(post(), many(97)...)},
		{Fields: append(post(), many(3000)...), Piece: 1000},
		{Fields: post(rig.Field{Name: "content-length", Value: "2"}), Body: "abc"},
		{Fields: post(rig.Field{Name: "content-length", Value: "9"}), Body: "abc"},
		{Fields: post(rig.Field{Name: "content-length", Value: "3"}, rig.Field{Name: "content-length", Value: "9"}), Body: "abc"},
		{Fields: post(), Body: "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: blocked.example\r\n\r\n"},
		{Fields: post(rig.Field{Name: "transfer-encoding", Value: "chunked"}), Body: "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: blocked.example\r\n\r\n"},
		{Fields: post(rig.Field{Name: "content-length", Value: "0"}), Body: "GET /smuggled HTTP/1.1\r\nHost: blocked.example\r\n\r\n"},
		{Fields: post(), Trailers: []rig.Field{{Name: ":path", Value: "/healthz"}}},
		{Fields: post(), Body: "abc", Trailers: []rig.Field{{Name: "x-user-id", Value: "neighbor"}, {Name: "host", Value: "blocked.example"}}},
		{Fields: post(rig.Field{Name: "te", Value: "trailers"}, rig.Field{Name: "trailer", Value: "x-user-id"}), Body: "abc", Trailers: []rig.Field{{Name: "x-user-id", Value: "neighbor"}}},
		{Fields: post(), Body: "abc", Trailers: []rig.Field{{Name: "x-http-method-override", Value: "DELETE"}, {Name: "x-koala-param-act", Value: "forged"}}},
		{Fields: post(), Body: "abc", Trailers: []rig.Field{{Name: "transfer-encoding", Value: "chunked"}, {Name: "content-length", Value: "5"}}},
		{Fields: post(rig.Field{Name: "expect", Value: "100-continue"}), Body: "abc"},
	} {
		list = append(list, rig.HostileRequest{Only: &r})
	}
	return list
}

// many returns fields of different names.
func many(n int) (list []rig.Field) {
	for i := range n {
		list = append(list, rig.Field{Name: fmt.Sprintf("x-h%d", i), Value: "x"})
	}
	return list
}

// The samples accept HTTP/2 without TLS only where they are made for it: at HAProxy's, each
// connection would have many requests, and maxconn limits connections.
func TestHostileHTTP2WithoutTLSIsForEnvoyAlone(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	k := h.Koalagate("--rules", h.File("rules.conf", hostileRules))
	app := h.App()
	for _, sample := range hostileSamples() {
		e := rig.Entrance{HTTPSample: &sample, Gateway: sample.Start(h, app.Address, k), Transport: rig.Transports[1]}
		reached := app.Reached()
		status, err := e.Send(hostileFrames()[0], "x", 20*time.Second)
		accepts := err == nil && status == http.StatusOK && app.Reached() == reached+1
		if accepts != sample.AcceptsPriorKnowledge {
			t.Errorf("%s, HTTP/2 without TLS: %d, %v; want it accepted: %t", sample.Name, status, err, sample.AcceptsPriorKnowledge)
		}
	}
}
