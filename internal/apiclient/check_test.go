package apiclient_test

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

	"github.com/koalagate/koalagate/internal/access"
	"github.com/koalagate/koalagate/internal/admin"
	"github.com/koalagate/koalagate/internal/apiclient"
)

// pages serves the pages of an instance with this status.
func pages(status admin.Status) http.Handler {
	return admin.New(admin.Options{Status: func() admin.Status { return status }, Metrics: http.NotFoundHandler(), Tokens: &access.Tokens{Exposed: true}})
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
		target apiclient.Target
		want   string // a text of the error; "" for none
	}{
		{"ready", apiclient.Target{Address: ready.Listener.Addr().String()}, ""},
		{"no host", apiclient.Target{Address: ":" + port}, ""},
		{"all addresses", apiclient.Target{Address: "0.0.0.0:" + port}, ""},
		{"a socket", apiclient.Target{Address: "unix:" + socket}, ""},
		{"TLS", apiclient.Target{Address: secure.Listener.Addr().String(), TLS: accepting}, ""},
		{"draining", apiclient.Target{Address: draining.Listener.Addr().String()}, "not ready: draining"},
		{"alive", apiclient.Target{Address: draining.Listener.Addr().String(), Path: "/healthz"}, ""},
		{"another program", apiclient.Target{Address: other.Listener.Addr().String()}, "404 Not Found"},
		{"nothing listens", apiclient.Target{Address: "127.0.0.1:1"}, "connection refused; is koalagate running"},
		{"no socket", apiclient.Target{Address: "unix:/nonexistent/socket"}, "no such file or directory; is koalagate running"},
		{"plain text for TLS", apiclient.Target{Address: secure.Listener.Addr().String()}, "HTTP request to an HTTPS server"},
		{"TLS for plain text", apiclient.Target{Address: ready.Listener.Addr().String(), TLS: accepting}, "it does not use TLS"},
		{"no certificate", apiclient.Target{Address: mutual.Listener.Addr().String(), TLS: accepting}, "requires --cert and --key"},
	} {
		if c.target.Path == "" {
			c.target.Path = "/readyz"
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		err := apiclient.Check(ctx, c.target)
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
	err = apiclient.Check(ctx, apiclient.Target{Address: silent.Addr().String(), Path: "/readyz"})
	if err == nil || !strings.Contains(err.Error(), "deadline exceeded") {
		t.Errorf("%v, want the deadline", err)
	}
}
