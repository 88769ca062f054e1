package admin_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/admin"
)

// pages serves the pages of an instance with this status.
func pages(status admin.Status) http.Handler {
	return admin.New(admin.Options{Status: func() admin.Status { return status }, Metrics: http.NotFoundHandler(), Exposed: true})
}

func TestCheck(t *testing.T) {
	ready := httptest.NewServer(pages(admin.Status{Ready: true}))
	defer ready.Close()
	draining := httptest.NewServer(pages(admin.Status{Reason: "draining"}))
	defer draining.Close()
	secure := httptest.NewTLSServer(pages(admin.Status{Ready: true}))
	defer secure.Close()
	mutual := httptest.NewUnstartedServer(pages(admin.Status{Ready: true}))
	mutual.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	mutual.StartTLS()
	defer mutual.Close()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()

	socket := filepath.Join(t.TempDir(), "admin")
	onSocket := httptest.NewUnstartedServer(pages(admin.Status{Ready: true}))
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	onSocket.Listener = l
	onSocket.Start()
	defer onSocket.Close()

	_, port, err := net.SplitHostPort(ready.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepting := &tls.Config{InsecureSkipVerify: true}
	for _, c := range []struct {
		name   string
		target admin.Target
		want   string // a text of the error; "" for none
	}{
		{"ready", admin.Target{Address: ready.Listener.Addr().String()}, ""},
		{"no host", admin.Target{Address: ":" + port}, ""},
		{"all addresses", admin.Target{Address: "0.0.0.0:" + port}, ""},
		{"a socket", admin.Target{Address: "unix:" + socket}, ""},
		{"TLS", admin.Target{Address: secure.Listener.Addr().String(), TLS: accepting}, ""},
		{"draining", admin.Target{Address: draining.Listener.Addr().String()}, "not ready: draining"},
		{"alive", admin.Target{Address: draining.Listener.Addr().String(), Path: "/healthz"}, ""},
		{"another program", admin.Target{Address: other.Listener.Addr().String()}, "404 Not Found"},
		{"nothing listens", admin.Target{Address: "127.0.0.1:1"}, "connection refused; is koalagate running"},
		{"no socket", admin.Target{Address: "unix:/nonexistent/socket"}, "no such file or directory; is koalagate running"},
		{"plain text for TLS", admin.Target{Address: secure.Listener.Addr().String()}, "HTTP request to an HTTPS server"},
		{"TLS for plain text", admin.Target{Address: ready.Listener.Addr().String(), TLS: accepting}, "it does not use TLS"},
		{"no certificate", admin.Target{Address: mutual.Listener.Addr().String(), TLS: accepting}, "requires --cert and --key"},
	} {
		if c.target.Path == "" {
			c.target.Path = "/readyz"
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		err := admin.Check(ctx, c.target)
		cancel()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// A program that accepts connections but does not answer fails the check in time.
func TestCheckEndsAtItsDeadline(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = admin.Check(ctx, admin.Target{Address: silent.Addr().String(), Path: "/readyz"})
	if err == nil || !strings.Contains(err.Error(), "deadline exceeded") {
		t.Errorf("%v, want the deadline", err)
	}
}
