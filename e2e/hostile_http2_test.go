package e2e_test

import (
	"bytes"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	h2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/koalagate/koalagate/e2e"
)

// field is one header field of an HTTP/2 request, in any form.
type field struct{ name, value string }

// hostileFields returns HTTP/2 requests that HTTP/1 cannot express: with two
// authorities, with pseudo-header fields in odd places or with odd values.
func hostileFields() (list [][]field) {
	with := func(method, scheme, authority, path string, more ...field) {
		request := []field{{":method", method}, {":scheme", scheme}}
		if authority != "" {
			request = append(request, field{":authority", authority})
		}
		list = append(list, append(append(request, field{":path", path}), more...))
	}
	const shop, blocked = "shop.example", "blocked.example"
	with("GET", "http", shop, "/a")
	for _, target := range hostileTargets {
		with("GET", "http", shop, target)
	}
	for _, host := range hostileHosts {
		with("GET", "http", host, "/a")
		with("GET", "http", "", "/a", field{"host", host})
	}
	for _, line := range hostileHeaders {
		name, value, _ := strings.Cut(line, ": ")
		with("GET", "http", shop, "/a", field{name, value})
		with("GET", "http", shop, "/a", field{strings.ToLower(name), value})
	}
	for _, host := range []string{shop, blocked} {
		with("GET", "http", shop, "/a", field{"host", host})
		with("GET", "http", blocked, "/a", field{"host", host})
		with("GET", "http", shop, "/a", field{":authority", host})
		with("GET", "http", shop, "/a", field{"host", shop}, field{"host", host})
	}
	for _, method := range []string{"get", "GET /healthz", "GET\r\n", "", "CONNECT", "FOO", "PRI"} {
		with(method, "http", shop, "/a")
	}
	for _, scheme := range []string{"https", "HTTP", "gopher", "", "http://blocked.example/"} {
		with("GET", scheme, shop, "/a")
	}
	with("GET", "http", "", "/a")
	with("GET", "http", shop, "/a", field{":path", "/healthz"})
	with("GET", "http", shop, "/healthz", field{":path", "/a"})
	with("CONNECT", "http", shop, "/a", field{":protocol", "websocket"})
	with("GET", "http", shop, "/a", field{"transfer-encoding", "chunked"})
	with("GET", "http", shop, "/a", field{"connection", "x-forwarded-for, host"})
	with("GET", "http", shop, "/a", field{"x-a", "b\r\nx-user-id: neighbor"})
	with("GET", "http", shop, "/a", field{"x-a\r\nx-user-id", "neighbor"})
	with("GET", "http", shop, "/a", field{"content-length", "5"})
	return list
}

// The same holds for HTTP/2, which Envoy's samples accept without TLS.
func TestHostileHTTP2ReachesNothingUndecided(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.stage.TrustUsers(false)
	sendHostileByHTTP2(h, "")
}

// The same holds for samples that authenticate their clients.
func TestHostileHTTP2OfUsersReachesNothingUndecided(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.stage.Authenticate("ann")
	sendHostileByHTTP2(h, "ann")
}

func sendHostileByHTTP2(h *fixture, user string) {
	t := h.T
	file := filepath.Join(h.dir, "decisions.log")
	k := h.koalagateWith([]string{"KOALAGATE_DECISION_LOG=" + file, "KOALAGATE_DECISION_LOG_PARAMS=all"}, "--rules", h.file("rules.conf", hostileRules))
	ledger := must(h.stage.Ledger())(t)
	gateways := hostileGateways(h, ledger.Address, k)
	requests := hostileFields()
	for name, g := range gateways {
		some := requests
		if !strings.HasPrefix(name, "envoy") {
			some = requests[:1]
		}
		// Envoy waits a second before it closes the connection of what it cannot read.
		concurrently(len(some), func(i int) {
			fields := append(slices.Clone(some[i]), field{"x-trace", traceOf(name, i)})
			for _, line := range g.Credentials() {
				name, value, _ := strings.Cut(line, ": ")
				fields = append(fields, field{strings.ToLower(name), value})
			}
			sendFields(t, g, fields)
		})
	}
	entries := ledger.Take()
	decisions := (&decisionLog{file: file}).of(t, entries)
	for name := range gateways {
		for i, request := range requests {
			trace := traceOf(name, i)
			for _, entry := range entries[trace] {
				if wrong := undecided(entry, user, decisions[trace], name != "envoy over HTTP"); wrong != "" {
					t.Errorf("%s, %q: %s; the application got %s %q of %q, and koalagate decided %+v",
						name, request, wrong, entry.Method, entry.Target, entry.Host, decisions[trace])
				}
			}
		}
	}
	for _, name := range []string{"envoy", "envoy over HTTP"} {
		if len(entries[traceOf(name, 0)]) != 1 {
			t.Errorf("%s: the plain request did not reach the application", name)
		}
	}
	// The other samples do not offer HTTP/2. At HAProxy's, each connection would have
	// many requests, and maxconn limits connections.
	for _, name := range []string{"nginx", "accel", "caddy", "haproxy"} {
		if len(entries[traceOf(name, 0)]) != 0 {
			t.Errorf("%s accepts HTTP/2 without TLS", name)
		}
	}
}

// sendFields sends a request by HTTP/2 on a connection of its own, and waits until
// the gateway answers it or refuses it.
func sendFields(t *testing.T, g *e2e.Gateway, fields []field) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.URL, "http://"))
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range fields {
		// A bytes.Buffer does not fail.
		_ = encoder.WriteField(hpack.HeaderField{Name: f.name, Value: f.value})
	}
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Error(err)
		return
	}
	framer := h2.NewFramer(conn, conn)
	// The gateway may close the connection at any time.
	_, _ = io.WriteString(conn, h2.ClientPreface)
	_ = framer.WriteSettings()
	_ = framer.WriteHeaders(h2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true})
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		switch frame.(type) {
		case *h2.HeadersFrame, *h2.RSTStreamFrame, *h2.GoAwayFrame:
			return
		}
	}
}
