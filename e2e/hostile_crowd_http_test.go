package e2e_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
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

// nginx and HAProxy cannot queue checks, so they refuse requests above a number: those in
// excess get a 503, and do not pass as requests whose checks fail. With HTTP/2 all of them
// come on one connection.
func TestHostileCrowdIsRefused(t *testing.T) {
	t.Parallel()
	ofNginx := [2]string{"limit_conn koala_requests 1000;", "limit_conn koala_requests 20;"}
	for _, sample := range []httpSample{
		{name: "nginx", start: asSample(nginxWith("nginx/nginx.conf", ofNginx))},
		{name: "accel", start: asSample(nginxWith("nginx/accel.conf", ofNginx))},
		{name: "haproxy", start: asSample(haproxyWith([2]string{"sc2_conn_cur gt 900", "sc2_conn_cur gt 20"}))},
	} {
		t.Run(sample.name, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t)
			m := startBackend(t, func(http.ResponseWriter, *http.Request) {})
			k := h.koalagate("--rules", h.file("rules.conf", hostileRules))
			for name, e := range h.entrances([]httpSample{sample}, m.address, k) {
				t.Run(name, func(t *testing.T) { e.crowd(t, m, 20) })
			}
		})
	}
}

// crowd sends as many requests at once as the gateway accepts, and more.
func (e entrance) crowd(t *testing.T, m *backend, most int) {
	release := m.hold()
	defer release()
	before := m.requests()
	get := hostileRequest{line: "GET /a HTTP/1.1", headers: shopHost}
	var crowd sync.WaitGroup
	if e.transport.isHTTP2 {
		crowd.Go(func() { e.streams(t, get, most) })
	} else {
		for range most {
			crowd.Go(func() {
				var status int
				var err error
				becomesTrue(func() bool {
					// The gateway may still count the request that showed that it runs.
					status, err = e.send(get, "x", time.Minute)
					return status != http.StatusServiceUnavailable
				})
				if err != nil || status != http.StatusOK {
					t.Errorf("a request within the limit: %d, %v; want 200", status, err)
				}
			})
		}
	}
	waitUntil(t, "the requests within the limit reach the application", func() bool { return m.requests() == before+most })
	for _, host := range []string{"shop.example", "blocked.example"} {
		if status, err := e.send(hostileRequest{line: get.line, headers: "Host: " + host}, "x", time.Minute); err != nil || status != http.StatusServiceUnavailable {
			t.Errorf("one more request of %s: %d, %v; want 503", host, status, err)
		}
	}
	release()
	crowd.Wait()
	if got := m.mostAtOnce(); got != most {
		t.Errorf("%d requests at the same time; want %d", got, most)
	}
}

// streams sends the same request several times at once on one connection, and waits until
// each has got a 200.
func (e entrance) streams(t *testing.T, r hostileRequest, times int) {
	conn, err := e.dial(time.Minute)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	c := newH2Client(conn)
	for i := range times {
		_ = c.send(uint32(2*i+1), r.http2("x")) // fails as reading does
	}
	next := uint32(2*times + 1)
	for answered := 0; answered < times; {
		switch _, status, err := c.answer(); {
		case err == nil && status == http.StatusServiceUnavailable: // as above
			_ = c.send(next, r.http2("x"))
			next += 2
		case err != nil || status != http.StatusOK:
			t.Errorf("a stream within the limit: %d, %v; want 200", status, err)
			return
		default:
			answered++
		}
	}
}
