package rig

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
func (d *Door) keepsConnections(t *testing.T, h *Fixture, app *e2e.App, k *e2e.Koalagate) {
	relay := Must(h.Stage.Relay(k.HTTP))(t)
	g := d.Open(h, app, relay.Address)
	for range 10 {
		WantStatus(t, 200, "GET", g.URL+"/")
	}
	before := relay.Opened()
	for range 50 {
		WantStatus(t, 403, "GET", g.URL+"/", "X-User-Id: blocked")
		WantStatus(t, 200, "GET", g.URL+"/")
	}
	// A gateway may open one connection for each of its two workers.
	if opened := relay.Opened() - before; opened > 2 {
		t.Errorf("100 requests, 50 of them refused, opened %d connections to koalagate; want at most 2", opened)
	}
}

// withoutKoalagate checks that the gateway fails open or closed as configured, in
// bounded time, if koalagate is slow or down.
func (d *Door) withoutKoalagate(t *testing.T, h *Fixture, app *e2e.App, rules string) {
	k := h.Koalagate("--rules", rules)
	h.Stage.BePatient(false) // this tests the timeouts of the samples
	open, shut := d.Open(h, app, k.HTTP), d.Shut(h, app, k.HTTP)
	h.Stage.BePatient(true)
	for _, g := range []*e2e.Gateway{open, shut} {
		WaitUntil(t, "koalagate answers in time", func() bool {
			return Send(t, "GET", g.URL+"/", "X-User-Id: blocked").Status == 403 && Send(t, "GET", g.URL+"/").Status == 200
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
			WantStatus(t, 200, "GET", open.URL+"/", "X-User-Id: blocked")
			if r := Send(t, "GET", shut.URL+"/"); !slices.Contains(d.Down, r.Status) {
				t.Errorf("%s, failing closed: %d; want one of %v", c.name, r.Status, d.Down)
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
func (d *Door) withoutApplication(t *testing.T, h *Fixture, instances []*e2e.Koalagate) {
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
	g := d.Open(h, &e2e.App{Address: l.Addr().String()}, AddressesOf(instances)...)
	for i := range 5 {
		// HAProxy also closes the client's connection if it was used before.
		r, err := TrySend("POST", g.URL+"/api/comments", "X-User-Id: unanswered")
		if err == nil && r.Status < 500 || requests.Load() != int32(i)+1 {
			t.Fatalf("request %d: %d, %v, and the application got %d requests; want an error, and one request each", i+1, r.Status, err, requests.Load())
		}
	}
	WantStatus(t, 429, "POST", g.URL+"/api/comments", "X-User-Id: unanswered")
}
