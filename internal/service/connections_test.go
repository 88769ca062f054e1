package service

import (
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"

	"github.com/koalagate/koalagate/envoy"
	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/mapping"
)

func TestConnectionsLeaveDescriptorsToTheProcess(t *testing.T) {
	for _, c := range []struct {
		descriptors, grpc, http int
		want                    connectionLimits
	}{
		{64, 1024, 8192, connectionLimits{7, 7, 2}},
		{64, 2, 8192, connectionLimits{2, 12, 2}},
		{64, 1024, 2, connectionLimits{12, 2, 2}},
		{1024, 1024, 8192, connectionLimits{224, 224, 64}},
		{1 << 20, 1024, 8192, connectionLimits{1024, 8192, 64}},
		{0, 1024, 8192, connectionLimits{1, 1, 1}},
	} {
		got := limitConnections(&config.Config{GRPC: config.GRPC{GRPCMaxConnections: c.grpc}, HTTPMaxConnections: c.http, AdminMaxConnections: 64}, c.descriptors)
		if got != c.want {
			t.Errorf("%d descriptors, settings %d and %d: %+v; want %+v", c.descriptors, c.grpc, c.http, got, c.want)
		}
		if sum := got.grpc + got.http + got.admin; c.descriptors > 0 && sum > c.descriptors-min(c.descriptors*3/4, maxReserve) {
			t.Errorf("%d descriptors: %d connections", c.descriptors, sum)
		}
	}
}

// Idle peers cannot keep callers out: with 200 connections open that send nothing, new
// calls are answered at every address, and connections in use stay.
func TestSilentConnectionsMakeRoom(t *testing.T) {
	s, text := open(t, map[string]any{"grpc_max_connections": 20, "http_max_connections": 20})
	run(t, s)
	a := s.Addresses()
	used, fresh := dialGRPC(t, s), &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	t.Cleanup(client.CloseIdleConnections)
	call := func(conn *grpc.ClientConn, client *http.Client) {
		t.Helper()
		if _, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), &authv3.CheckRequest{}); err != nil && strings.Contains(err.Error(), "Unavailable") {
			t.Fatal(err)
		}
		res, err := client.Get("http://" + a.HTTP + "/rule/browse?uid=ann")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
	use := func() { t.Helper(); call(used, client) }
	use()
	for i := range 200 {
		for _, address := range []string{a.GRPC, a.HTTP, a.Admin} {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
		}
		if i%10 == 0 {
			// A new connection is accepted after those before it: none of them is younger than
			// the next use.
			conn := dialGRPC(t, s)
			call(conn, fresh)
			conn.Close()
			use()
		}
	}
	// Fresh connections of other callers.
	if status, _ := get(t, a.Admin, "/readyz"); status != http.StatusOK {
		t.Errorf("/readyz: %d", status)
	}
	if status, _ := get(t, a.HTTP, "/rule/browse?uid=bob"); status != http.StatusOK {
		t.Errorf("/rule/browse: %d", status)
	}
	use()
	_, body := get(t, a.Admin, "/metrics")
	for _, bound := range []string{boundGRPCConnections, boundHTTPConnections, boundAdminConnections} {
		if strings.Contains(body, `koalagate_bounds_total{bound="`+bound+`"} 0`) {
			t.Errorf("/metrics counts none of %s", bound)
		}
		if !strings.Contains(text.String(), "bound="+bound) {
			t.Errorf("the log has no %s:\n%s", bound, text)
		}
	}
}

// fullListener is a listener of a process without free descriptors.
type fullListener struct {
	net.Listener
	full bool
}

func (l *fullListener) Accept() (net.Conn, error) {
	if l.full {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

// Without free descriptors, the connection that was silent longest ends.
func TestConnectionsMakeRoomWithoutDescriptors(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	full := &fullListener{Listener: inner}
	ended := 0
	l := newLimitedListener(full, listenerLimit{all: 10, peer: 10}, func(string, net.Addr) { ended++ })
	conn, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := l.Accept(); err != nil {
		t.Fatal(err)
	}
	full.full = true
	if _, err := l.Accept(); !isOutOfFiles(err) || !strings.Contains(listenRemedy(err), "ulimit -n") {
		t.Errorf("%v, remedy %q", err, listenRemedy(err))
	}
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil || ended != 1 || l.conns.Len() != 0 {
		t.Errorf("%v, %d ended, %d open; want the connection closed", err, ended, l.conns.Len())
	}
}

// Every bound has a remedy for the log.
func TestBoundsHaveRemedies(t *testing.T) {
	for _, b := range envoy.Bounds() {
		if boundRemedies[string(b)] == "" {
			t.Errorf("no remedy for %s", b)
		}
	}
	for _, b := range mapping.Bounds() {
		if boundRemedies[string(b)] == "" {
			t.Errorf("no remedy for %s", b)
		}
	}
}
