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

// keeps: neither what is let through nor what is refused costs the connection
// to koalagate.
func (d *door) keeps(t *testing.T, h *house, app *e2e.App, k *e2e.Koalagate) {
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
	// A gateway of two workers may make one for each of them.
	if opened := relay.Opened() - before; opened > 2 {
		t.Errorf("100 requests of which 50 are refused opened %d connections to koalagate; want at most 2", opened)
	}
}

// withoutKoalagate: slow or gone, it fails open or closed as configured, in
// bounded time.
func (d *door) withoutKoalagate(t *testing.T, h *house, app *e2e.App, rules string) {
	k := h.koalagate("--rules", rules)
	h.stage.BePatient(false) // the times of the samples are what this is about
	open, shut := d.open(h, app, k.HTTP), d.shut(h, app, k.HTTP)
	h.stage.BePatient(true)
	for _, g := range []*e2e.Gateway{open, shut} {
		until(t, "koalagate is asked, and answers in time", func() bool {
			return ask(t, "GET", g.URL+"/", "X-User-Id: blocked").status == 403 && ask(t, "GET", g.URL+"/").status == 200
		})
	}
	cases := []struct {
		name string
		make func() error
		undo func() error
	}{
		{"slow", func() error { return k.Signal(syscall.SIGSTOP) }, func() error { return k.Signal(syscall.SIGCONT) }},
		{"gone", k.Kill, func() error { return nil }},
	}
	for i, c := range cases {
		if err := c.make(); err != nil {
			t.Fatal(err)
		}
		t.Run(d.fact(8+i), func(t *testing.T) {
			start := time.Now()
			wantStatus(t, 200, "GET", open.URL+"/", "X-User-Id: blocked")
			if r := ask(t, "GET", shut.URL+"/"); !slices.Contains(d.down, r.status) {
				t.Errorf("%s, and requests are to be refused: %d; want one of %v", c.name, r.status, d.down)
			}
			if took := time.Since(start); took > 15*time.Second {
				t.Errorf("%s: two requests took %v; want a second or so each", c.name, took)
			}
		})
		if err := c.undo(); err != nil {
			t.Fatal(err)
		}
	}
}

// withoutApplication: an application that breaks off is asked once, its client
// hears of a failure, and the request counts once.
func (d *door) withoutApplication(t *testing.T, h *house, instances []*e2e.Koalagate) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var asked atomic.Int32
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // the listener was closed
			}
			request, err := http.ReadRequest(bufio.NewReader(c))
			if err == nil && request.URL.Path != "/healthz" {
				asked.Add(1)
			}
			c.Close()
		}
	}()
	g := d.open(h, &e2e.App{Address: l.Addr().String()}, addressesOf(instances)...)
	for i := range 5 {
		// HAProxy breaks off too where the client's connection is an old one.
		r, err := askFor("POST", g.URL+"/api/comments", "X-User-Id: unanswered")
		if err == nil && r.status < 500 || asked.Load() != int32(i)+1 {
			t.Fatalf("request %d: %d, %v, and the application was asked %d times; want a failure, and once for each", i+1, r.status, err, asked.Load())
		}
	}
	wantStatus(t, 429, "POST", g.URL+"/api/comments", "X-User-Id: unanswered")
}
