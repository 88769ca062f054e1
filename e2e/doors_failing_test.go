package e2e_test

import (
	"bufio"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
)

// keepsConnections checks that neither allowed nor refused requests close the
// connection to koalagate.
func (d *door) keepsConnections(t *testing.T, h *fixture, app *e2e.App, k *e2e.Koalagate) {
	relay := must(h.stage.Relay(k.HTTP))(t)
	g := d.open(h, app, relay.Address)
	for range 10 {
		wantStatus(t, 200, "GET", g.URL+"/")
	}
	before := relay.Opened()
	for range 50 {
		wantStatus(t, 403, "GET", g.URL+"/", "X-User-Id: blocked")
		wantStatus(t, 200, "GET", g.URL+"/")
	}
	// A gateway may open one connection for each of its two workers.
	if opened := relay.Opened() - before; opened > 2 {
		t.Errorf("100 requests, 50 of them refused, opened %d connections to koalagate; want at most 2", opened)
	}
}

// withoutKoalagate checks that the gateway fails open or closed as configured, in
// bounded time, if koalagate is slow or down.
func (d *door) withoutKoalagate(t *testing.T, h *fixture, app *e2e.App, rules string) {
	k := h.koalagate("--rules", rules)
	h.stage.BePatient(false) // this tests the timeouts of the samples
	open, shut := d.open(h, app, k.HTTP), d.shut(h, app, k.HTTP)
	h.stage.BePatient(true)
	for _, g := range []*e2e.Gateway{open, shut} {
		waitUntil(t, "koalagate answers in time", func() bool {
			return send(t, "GET", g.URL+"/", "X-User-Id: blocked").status == 403 && send(t, "GET", g.URL+"/").status == 200
		})
	}
	cases := []struct {
		name string
		make func() error
		undo func() error
	}{
		{"slow", func() error { return k.Signal(syscall.SIGSTOP) }, func() error { return k.Signal(syscall.SIGCONT) }},
		{"down", k.Kill, func() error { return nil }},
	}
	for i, c := range cases {
		if err := c.make(); err != nil {
			t.Fatal(err)
		}
		t.Run(d.fact(8+i), func(t *testing.T) {
			start := time.Now()
			wantStatus(t, 200, "GET", open.URL+"/", "X-User-Id: blocked")
			if r := send(t, "GET", shut.URL+"/"); !slices.Contains(d.down, r.status) {
				t.Errorf("%s, failing closed: %d; want one of %v", c.name, r.status, d.down)
			}
			if took := time.Since(start); took > 15*time.Second {
				t.Errorf("%s: two requests took %v; want about a second each", c.name, took)
			}
		})
		if err := c.undo(); err != nil {
			t.Fatal(err)
		}
	}
}

// withoutApplication checks that an application that closes the connection without
// an answer is called once, the client gets an error, and the request counts once.
func (d *door) withoutApplication(t *testing.T, h *fixture, instances []*e2e.Koalagate) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var requests atomic.Int32
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // the listener was closed
			}
			request, err := http.ReadRequest(bufio.NewReader(c))
			if err == nil && request.URL.Path != "/healthz" {
				requests.Add(1)
			}
			c.Close()
		}
	}()
	g := d.open(h, &e2e.App{Address: l.Addr().String()}, addressesOf(instances)...)
	for i := range 5 {
		// HAProxy also closes the client's connection if it was used before.
		r, err := trySend("POST", g.URL+"/api/comments", "X-User-Id: unanswered")
		if err == nil && r.status < 500 || requests.Load() != int32(i)+1 {
			t.Fatalf("request %d: %d, %v, and the application got %d requests; want an error, and one request each", i+1, r.status, err, requests.Load())
		}
	}
	wantStatus(t, 429, "POST", g.URL+"/api/comments", "X-User-Id: unanswered")
}
