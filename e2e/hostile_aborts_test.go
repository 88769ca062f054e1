package e2e_test

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	h2 "golang.org/x/net/http2"
)

// abort is a way in which a client leaves while its request is checked.
type abort struct {
	name string
	// isHTTP2 is set if only HTTP/2 has it.
	isHTTP2 bool
	// leave ends the request on stream 1 or its connection.
	leave func(conn net.Conn, c *h2Client)
}

var aborts = []abort{
	{"a closed connection", false, func(conn net.Conn, _ *h2Client) { conn.Close() }},
	{"a reset connection", false, func(conn net.Conn, _ *h2Client) {
		_ = tcpOf(conn).SetLinger(0) // then closing resets it
		tcpOf(conn).Close()
	}},
	{"a half-closed connection", false, func(conn net.Conn, _ *h2Client) { _ = tcpOf(conn).CloseWrite() }},
	{"a canceled stream", true, func(_ net.Conn, c *h2Client) { _ = c.framer.WriteRSTStream(1, h2.ErrCodeCancel) }},
	{"a stream reset with another code", true, func(_ net.Conn, c *h2Client) { _ = c.framer.WriteRSTStream(1, h2.ErrCodeInternal) }},
	{"an announced end", true, func(_ net.Conn, c *h2Client) { _ = c.framer.WriteGoAway(0, h2.ErrCodeProtocol, nil) }},
	{"a frame that is none", true, func(conn net.Conn, _ *h2Client) { _, _ = conn.Write(make([]byte, 1000)) }},
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
	h := newFixture(t)
	h.stage.TrustUsers(false)
	k := h.koalagate("--rules", h.file("rules.conf", hostileRules))
	ledger := must(h.stage.Ledger())(t)
	entrances := h.entrances(samplesThatNoticeAborts(), ledger.Address, k)
	for name, e := range entrances { // connects the gateway with koalagate
		if status, err := e.send(hostileRequest{line: "GET /a HTTP/1.1", headers: "Host: shop.example"}, "first", 20*time.Second); err != nil || status != http.StatusOK {
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
			if !a.isHTTP2 || e.transport.isHTTP2 {
				clients.Go(func() { e.abandon(t, traceOf(name, i), a) })
			}
		}
	}
	clients.Wait()
	if err := k.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond) // a request that passes does so at once
	for trace, entries := range ledger.Take() {
		t.Errorf("%s: the application got %s %q of %q", trace, entries[0].Method, entries[0].Target, entries[0].Host)
	}
}

// samplesThatNoticeAborts adds HAProxy with its option abortonclose, the default from 3.3
// on, by which it notices clients that end their sending.
func samplesThatNoticeAborts() []httpSample {
	const defaults, app = "    mode http\n    timeout connect 1s\n", "\nbackend app\n"
	return append(hostileSamples(), httpSample{name: "haproxy with abortonclose", start: asSample(
		haproxyWith([2]string{defaults, "    option abortonclose\n" + defaults}, [2]string{app, app + "    no option abortonclose\n"}),
	)})
}

// abandon sends requests that koalagate refuses, and leaves before it answers.
func (e entrance) abandon(t *testing.T, trace string, a abort) {
	for _, line := range []string{"GET /a HTTP/1.1", "POST /a HTTP/1.1", "GET /downloads/f HTTP/1.1"} {
		conn, err := e.dial(20 * time.Second)
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { conn.Close() })
		r := hostileRequest{line: line, headers: "Host: blocked.example"}
		var c *h2Client
		if e.transport.isHTTP2 {
			c = newH2Client(conn)
			err = c.send(1, r.http2(trace))
		} else {
			_, err = conn.Write([]byte(r.raw(trace) + "\r\n\r\n"))
		}
		if err != nil {
			t.Error(err)
			return
		}
		time.Sleep(100 * time.Millisecond) // the gateway asks koalagate
		a.leave(conn, c)
	}
}
