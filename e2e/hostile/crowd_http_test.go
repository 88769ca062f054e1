package hostile_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// checks is an instance that answers no check until release, and then refuses all.
type checks struct {
	release chan struct{}

	mu    sync.Mutex
	open  map[net.Conn]struct{}
	most  int // connections at the same time
	asked int
}

func (c *checks) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	c.mu.Lock()
	c.asked++
	c.mu.Unlock()
	<-c.release
	w.WriteHeader(http.StatusForbidden)
}

// observe counts connections.
func (c *checks) observe(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.open[conn] = struct{}{}
		c.most = max(c.most, len(c.open))
	case http.StateClosed:
		delete(c.open, conn)
	}
}

// Clients with many requests at once make Caddy queue their checks. Without a maximum it
// dials for each: above its own limit koalagate closes connections with checks, and a
// busy machine exceeds dial_timeout; both let the requests pass.
func TestHostileCrowdQueuesAtCaddy(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	app := h.App()
	c := &checks{release: make(chan struct{}), open: make(map[net.Conn]struct{})}
	server := httptest.NewUnstartedServer(c)
	server.Config.ConnState = c.observe
	server.Start()
	t.Cleanup(server.Close)
	h.Stage.BePatient(false) // these are longer: a busy machine must not exceed them
	g := rig.CaddyWith([2]string{"dial_timeout 250ms", "dial_timeout 60s"}, [2]string{"response_header_timeout 1s", "response_header_timeout 60s"})(
		h, app, strings.TrimPrefix(server.URL, "http://"))
	const connections, crowd = 256, 600
	go func() {
		defer close(c.release)
		if !rig.BecomesTrue(func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.asked >= connections
		}) {
			t.Error("Caddy does not use all of its connections")
		}
	}()
	rig.Concurrently(crowd, func(int) {
		if status, err := rig.SendRawFor(g, "GET /a HTTP/1.1\r\nHost: shop.example", time.Minute); err != nil || status != http.StatusForbidden {
			t.Errorf("%d, %v; want 403", status, err)
		}
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	// A connection that Caddy has closed may count here a little longer.
	if c.most > 2*connections || c.asked != crowd || app.Reached() != 0 {
		t.Errorf("%d checks on up to %d connections, and %d requests reached the application; want %d on %d, and 0",
			c.asked, c.most, app.Reached(), crowd, connections)
	}
}

// nginx and HAProxy cannot queue checks, so they refuse requests above a number: those in
// excess get a 503, and do not pass as requests whose checks fail. With HTTP/2 all of them
// come on one connection.
func TestHostileCrowdIsRefused(t *testing.T) {
	t.Parallel()
	ofNginx := [2]string{"limit_conn koala_requests 1000;", "limit_conn koala_requests 20;"}
	for _, sample := range []rig.HTTPSample{
		{Name: "nginx", Start: asSample(rig.NginxWith("nginx/nginx.conf", ofNginx))},
		{Name: "accel", Start: asSample(rig.NginxWith("nginx/accel.conf", ofNginx))},
		{Name: "haproxy", Start: asSample(rig.HAProxyWith([2]string{"sc2_conn_cur gt 900", "sc2_conn_cur gt 20"}))},
	} {
		t.Run(sample.Name, func(t *testing.T) {
			t.Parallel()
			h := rig.NewFixture(t)
			m := rig.StartBackend(t, func(http.ResponseWriter, *http.Request) {})
			k := h.Koalagate("--rules", h.File("rules.conf", hostileRules))
			for name, e := range h.Entrances([]rig.HTTPSample{sample}, m.Address, k) {
				t.Run(name, func(t *testing.T) { e.Crowd(t, m, 20) })
			}
		})
	}
}
