package e2e_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
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
	h := newFixture(t)
	app := h.app()
	c := &checks{release: make(chan struct{}), open: make(map[net.Conn]struct{})}
	server := httptest.NewUnstartedServer(c)
	server.Config.ConnState = c.observe
	server.Start()
	t.Cleanup(server.Close)
	h.stage.BePatient(false) // these are longer: a busy machine must not exceed them
	g := caddyWith([2]string{"dial_timeout 250ms", "dial_timeout 60s"}, [2]string{"response_header_timeout 1s", "response_header_timeout 60s"})(
		h, app, strings.TrimPrefix(server.URL, "http://"))
	const connections, crowd = 256, 600
	go func() {
		defer close(c.release)
		if !becomesTrue(func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.asked >= connections
		}) {
			t.Error("Caddy does not use all of its connections")
		}
	}()
	concurrently(crowd, func(int) {
		if status, err := sendRawFor(g, "GET /a HTTP/1.1\r\nHost: shop.example", time.Minute); err != nil || status != http.StatusForbidden {
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

// nginx cannot queue checks, so it refuses requests above a number: those in excess get a
// 503, and do not pass as requests whose checks fail.
func TestHostileCrowdIsRefusedByNginx(t *testing.T) {
	t.Parallel()
	for _, sample := range []string{"nginx/nginx.conf", "nginx/accel.conf"} {
		t.Run(sample, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t)
			m := startBackend(t, func(http.ResponseWriter, *http.Request) {})
			k := h.koalagate("--rules", h.file("rules.conf", hostileRules))
			g := nginxWith(sample, [2]string{"limit_conn koala_requests 1000;", "limit_conn koala_requests 20;"})(h, &e2e.App{Address: m.address}, k.HTTP)
			release := m.hold()
			var crowd sync.WaitGroup
			for range 20 {
				crowd.Go(func() {
					var status int
					var err error
					becomesTrue(func() bool {
						// nginx may still count the request that showed that it runs.
						status, err = sendRawFor(g, "GET /a HTTP/1.1\r\nHost: shop.example", time.Minute)
						return status != http.StatusServiceUnavailable
					})
					if err != nil || status != http.StatusOK {
						t.Errorf("a request within the limit: %d, %v; want 200", status, err)
					}
				})
			}
			waitUntil(t, "20 requests reach the application", func() bool { return m.mostAtOnce() == 20 })
			for _, host := range []string{"shop.example", "blocked.example"} {
				if status, err := sendRaw(g, "GET /a HTTP/1.1\r\nHost: "+host); err != nil || status != http.StatusServiceUnavailable {
					t.Errorf("one more request of %s: %d, %v; want 503", host, status, err)
				}
			}
			release()
			crowd.Wait()
			if most := m.mostAtOnce(); most != 20 {
				t.Errorf("%d requests at the same time; want 20", most)
			}
		})
	}
}
