package hostile_test

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	h2 "golang.org/x/net/http2"

	"github.com/koalagate/koalagate/e2e/internal/rig"
)

var aborts = []rig.Abort{
	{Name: "a closed connection", IsHTTP2: false, Leave: func(conn net.Conn, _ *rig.H2Client) { conn.Close() }},
	{Name: "a reset connection", IsHTTP2: false, Leave: func(conn net.Conn, _ *rig.H2Client) {
		_ = tcpOf(conn).SetLinger(0) // then closing resets it
		tcpOf(conn).Close()
	}},
	{Name: "a half-closed connection", IsHTTP2: false, Leave: func(conn net.Conn, _ *rig.H2Client) { _ = tcpOf(conn).CloseWrite() }},
	{Name: "a canceled stream", IsHTTP2: true, Leave: func(_ net.Conn, c *rig.H2Client) { _ = c.Framer.WriteRSTStream(1, h2.ErrCodeCancel) }},
	{Name: "a stream reset with another code", IsHTTP2: true, Leave: func(_ net.Conn, c *rig.H2Client) { _ = c.Framer.WriteRSTStream(1, h2.ErrCodeInternal) }},
	{Name: "an announced end", IsHTTP2: true, Leave: func(_ net.Conn, c *rig.H2Client) { _ = c.Framer.WriteGoAway(0, h2.ErrCodeProtocol, nil) }},
	{Name: "a frame that is none", IsHTTP2: true, Leave: func(conn net.Conn, _ *rig.H2Client) { _, _ = conn.Write(make([]byte, 1000)) }},
}

// tcpOf returns the TCP connection below TLS.
func tcpOf(conn net.Conn) *net.TCPConn {
	if secure, isTLS := conn.(*tls.Conn); isTLS {
		conn = secure.NetConn()
	}
	return conn.(*net.TCPConn)
}

// A client that leaves while koalagate has not answered yet does not pass without an answer.
func TestHostileAbortsReachNothingUndecided(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.Stage.TrustUsers(false)
	k := h.Koalagate("--rules", h.File("rules.conf", hostileRules))
	ledger := rig.Must(h.Stage.Ledger())(t)
	entrances := h.Entrances(samplesThatNoticeAborts(), ledger.Address, k)
	for name, e := range entrances { // connects the gateway with koalagate
		if status, err := e.Send(rig.HostileRequest{Line: "GET /a HTTP/1.1", Headers: "Host: shop.example"}, "first", 20*time.Second); err != nil || status != http.StatusOK {
			t.Fatalf("%s: %d, %v; want 200", name, status, err)
		}
	}
	ledger.Take()
	if err := k.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var clients sync.WaitGroup
	for name, e := range entrances {
		for i, a := range aborts {
			if !a.IsHTTP2 || e.Transport.IsHTTP2 {
				clients.Go(func() { e.Abandon(t, traceOf(name, i), a) })
			}
		}
	}
	clients.Wait()
	if err := k.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	// koalagate and the gateways get these requests after the abandoned ones: an abandoned request
	// that passes has arrived at the application before the last of these has its answer.
	const after = "after"
	for range 4 {
		for name, e := range entrances {
			if status, err := e.Send(rig.HostileRequest{Line: "GET /a HTTP/1.1", Headers: "Host: shop.example"}, after, 20*time.Second); err != nil || status != http.StatusOK {
				t.Fatalf("%s: %d, %v; want 200", name, status, err)
			}
		}
	}
	arrived := ledger.Take()
	if n := len(arrived[after]); n != 4*len(entrances) {
		t.Errorf("the application got %d requests that are allowed; want %d", n, 4*len(entrances))
	}
	delete(arrived, after)
	for trace, entries := range arrived {
		t.Errorf("%s: the application got %s %q of %q", trace, entries[0].Method, entries[0].Target, entries[0].Host)
	}
}

// samplesThatNoticeAborts adds HAProxy with its option abortonclose, the default from 3.3
// on, by which it notices clients that end their sending.
func samplesThatNoticeAborts() []rig.HTTPSample {
	const defaults, app = "    mode http\n    timeout connect 1s\n", "\nbackend app\n"
	return append(hostileSamples(), rig.HTTPSample{Name: "haproxy with abortonclose", Start: asSample(
		rig.HAProxyWith([2]string{defaults, "    option abortonclose\n" + defaults}, [2]string{app, app + "    no option abortonclose\n"}),
	)})
}
