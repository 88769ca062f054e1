package hostile_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// The gateway limits a client's headers to less than koalagate's limit: koalagate
// answers 431 to longer ones and closes the connection, and a gateway that must dial
// repeatedly considers its only instance down.
func TestHostileLongHeadersCostNoConnection(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.Stage.TrustUsers(false)
	k := h.Koalagate("--rules", h.File("rules.conf", hostileRules))
	app := h.App()
	for name, start := range map[string]func(k *e2e.Koalagate) *e2e.Gateway{
		"envoy over HTTP": func(k *e2e.Koalagate) *e2e.Gateway { return h.EnvoyHTTP(app, k) },
		"nginx":           func(k *e2e.Koalagate) *e2e.Gateway { return h.Nginx(app, k) },
		"accel":           func(k *e2e.Koalagate) *e2e.Gateway { return rig.NginxWith("nginx/accel.conf")(h, app, k.HTTP) },
		"caddy":           func(k *e2e.Koalagate) *e2e.Gateway { return rig.CaddyWith(e2e.KeepsConnections)(h, app, k.HTTP) },
		"haproxy":         func(k *e2e.Koalagate) *e2e.Gateway { return rig.HAProxyWith()(h, app, k.HTTP) },
	} {
		relay := rig.Must(h.Stage.Relay(k.HTTP))(t)
		g := start(&e2e.Koalagate{Program: k.Program, HTTP: relay.Address, GRPC: k.GRPC, Admin: k.Admin})
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rig.WantStatus(t, 200, "GET", g.URL+"/a")
			before := relay.Opened()
			rig.Concurrently(16, func(int) {
				for _, request := range slices.Repeat(swellingRequests(), 3) {
					if name != "envoy over HTTP" { // it dials again, and refuses what it cannot check
						_, _ = rig.SendRaw(g, request) // any answer will do, or none
					}
				}
				for _, request := range longRequests() {
					if status, err := rig.SendRaw(g, request); err == nil && status < 400 {
						t.Errorf("%d bytes of headers: %d; want a refusal", len(request), status)
					}
					if status, err := rig.SendRaw(g, "GET /a HTTP/1.1\r\nHost: blocked.example"); err != nil || status != http.StatusForbidden {
						t.Errorf("a concurrent blocked request: %d, %v; want 403", status, err)
					}
				}
			})
			// Sixteen concurrent clients may open as many, with each of two workers.
			if opened := relay.Opened() - before; opened > 2*16+2 {
				t.Errorf("%d long requests opened %d connections to koalagate; want at most one per client", 16*len(longRequests()), opened)
			}
		})
	}
}

// swellingRequests returns requests that are short enough for some gateways, and
// longer in the check: an escaped byte takes three, and the host occurs twice.
func swellingRequests() []string {
	quotes := strings.Repeat(`"`, 30_000)
	host := strings.Repeat("host.", 3000) + "example"
	return []string{
		"GET /" + quotes + " HTTP/1.1\r\nHost: shop.example", "GET /" + quotes[:19_000] + " HTTP/1.1\r\nHost: shop.example",
		"GET /" + strings.Repeat("\xff", 19_000) + " HTTP/1.1\r\nHost: shop.example",
		"GET /a HTTP/1.1\r\nHost: " + host, "GET /a HTTP/1.1\r\nHost: " + host[:15_000] + host,
	}
}

// longRequests returns requests with 70 kB to 1 MB of headers: in few lines and in many,
// in the target, and in a header that every gateway forwards.
func longRequests() []string {
	lines := func(n, size int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "\r\nX-H%d: %s", i, strings.Repeat("x", size))
		}
		return b.String()
	}
	const get = "GET /a HTTP/1.1\r\nHost: shop.example"
	return []string{
		get + lines(10, 7000), get + lines(40, 7900), get + lines(125, 7900), get + lines(5000, 50),
		get + "\r\nCookie: a=" + strings.Repeat("x", 300_000), "GET /" + strings.Repeat("x", 100_000) + " HTTP/1.1\r\nHost: shop.example",
	}
}

// Clients that hold all connections of a gateway by endless headers slow down other
// clients, but do not let requests pass that koalagate refuses.
func TestHostileHalfSentHeadersKeepTheLimits(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.Stage.TrustUsers(false)
	k := h.Koalagate("--rules", h.File("rules.conf", hostileRules))
	app := h.App()
	few := [2]string{"events {}", "events { worker_connections 40; }"} // for each of two workers
	for name, c := range map[string]struct {
		g    *e2e.Gateway
		most int // held connections: about as many as the gateway takes
	}{
		"haproxy": {rig.HAProxyWith([2]string{"maxconn 2000\n", "maxconn 40\n"}, [2]string{"maxconn 900\n", "maxconn 18\n"},
			[2]string{"timeout http-request 5s\n", "timeout http-request 1s\n"})(h, app, k.HTTP), 40},
		"nginx": {rig.NginxWith("nginx/nginx.conf", few)(h, app, k.HTTP), 80},
		"accel": {rig.NginxWith("nginx/accel.conf", few)(h, app, k.HTTP), 80},
		"caddy": {rig.CaddyWith()(h, app, k.HTTP), 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const steps = 40
			for range steps {
				holdHalfSent(t, c.g, c.most/steps)
				wantNoneOpen(t, c.g)
			}
			rig.WaitUntil(t, "koalagate decides again", func() bool {
				status, err := rig.SendRaw(c.g, "GET /a HTTP/1.1\r\nHost: blocked.example")
				return err == nil && status == http.StatusForbidden
			})
		})
	}
}

// wantNoneOpen sends requests that koalagate refuses, mixed with allowed ones, which
// leave connections to the application open. The gateway may close connections that
// exceed its limit.
func wantNoneOpen(t *testing.T, g *e2e.Gateway) {
	t.Helper()
	rig.Concurrently(16, func(i int) {
		host := []string{"blocked.example", "shop.example"}[i%2]
		for range 5 {
			status, err := rig.SendRaw(g, "GET /a HTTP/1.1\r\nHost: "+host)
			if err == nil && host == "blocked.example" && status < 400 {
				t.Errorf("a blocked request: %d; want a refusal", status)
			}
		}
	})
}

// The frontends of HAProxy's sample leave enough connections for koalagate's section: a
// checked request takes one of each.
func TestHostileConnectionsLeaveHAProxyItsOwn(t *testing.T) {
	h := rig.NewFixture(t)
	text := string(rig.Must(os.ReadFile(h.Stage.Path("deploy/haproxy/haproxy.cfg")))(t))
	var limits []int
	for _, found := range regexp.MustCompile(`(?m)^    maxconn (\d+)$`).FindAllStringSubmatch(text, -1) {
		limits = append(limits, rig.Must(strconv.Atoi(found[1]))(t))
	}
	if len(limits) != 2 || 2*limits[1] >= limits[0] {
		t.Errorf("the limits are %d; want one of all frontends, and less than half of it for the frontend public", limits)
	}
}

// holdHalfSent opens connections and starts a request on each, until the test ends.
func holdHalfSent(t *testing.T, g *e2e.Gateway, connections int) {
	t.Helper()
	for range connections {
		conn, err := net.DialTimeout("tcp", strings.TrimPrefix(g.URL, "http://"), 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		// A gateway at its limit has already closed it.
		_, _ = io.WriteString(conn, "GET /a HTTP/1.1\r\nHost: shop.example\r\nX-H: ")
	}
}
