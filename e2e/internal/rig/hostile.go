package rig

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	h2 "golang.org/x/net/http2"
)

// HostileRequest is an attacker's request without the final empty line.
type HostileRequest struct {
	Line    string // method, target and version
	Headers string // with the line breaks between them
	Plain   bool   // nothing is wrong with it: it must reach the application
	// Only is a request that HTTP/1.1 cannot express; it replaces line and headers.
	Only *H2Request
}

// String returns the request for messages.
func (r HostileRequest) String() string {
	if r.Only != nil {
		return fmt.Sprintf("%+v", *r.Only)
	}
	return fmt.Sprintf("%q", r.raw(""))
}

// raw returns the request with a trace and credentials.
func (r HostileRequest) raw(trace string, credentials ...string) string {
	lines := strings.Join(append([]string{r.Line, "X-Trace: " + trace}, credentials...), "\r\n")
	if r.Headers != "" {
		lines += "\r\n" + r.Headers
	}
	return lines
}

// ShopHost is the Host of requests whose limits depend on it.
const ShopHost = "Host: shop.example"

// Abort is a way in which a client leaves while its request is checked.
type Abort struct {
	Name string
	// IsHTTP2 is set if only HTTP/2 has it.
	IsHTTP2 bool
	// Leave ends the request on stream 1 or its connection.
	Leave func(conn net.Conn, c *H2Client)
}

// Abandon sends requests that koalagate refuses, and leaves before it answers.
func (e Entrance) Abandon(t *testing.T, trace string, a Abort) {
	for _, line := range []string{"GET /a HTTP/1.1", "POST /a HTTP/1.1", "GET /downloads/f HTTP/1.1"} {
		conn, err := e.dial(20 * time.Second)
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { conn.Close() })
		r := HostileRequest{Line: line, Headers: "Host: blocked.example"}
		var c *H2Client
		if e.Transport.IsHTTP2 {
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
		a.Leave(conn, c)
	}
}

// Flood sends a request on many streams of one connection, and waits for the answers or
// cancels each stream.
func (e Entrance) Flood(r HostileRequest, streams uint32, cancels bool) {
	conn, err := e.dial(20 * time.Second)
	if err != nil {
		return // the gateway limits connections
	}
	defer conn.Close()
	c := newH2Client(conn)
	for i := range streams {
		_ = c.send(2*i+1, r.http2("x")) // the gateway may close the connection
		if cancels {
			_ = c.Framer.WriteRSTStream(2*i+1, h2.ErrCodeCancel) // as above
		}
	}
	if cancels {
		return
	}
	for range streams {
		if stream, _, err := c.answer(); err != nil && stream == 0 {
			return
		}
	}
}

// Crowd sends as many requests at once as the gateway accepts, and more.
func (e Entrance) Crowd(t *testing.T, m *Backend, most int) {
	release := m.Hold()
	defer release()
	before := m.Requests()
	get := HostileRequest{Line: "GET /a HTTP/1.1", Headers: ShopHost}
	var crowd sync.WaitGroup
	if e.Transport.IsHTTP2 {
		crowd.Go(func() { e.streams(t, get, most) })
	} else {
		for range most {
			crowd.Go(func() {
				var status int
				var err error
				BecomesTrue(func() bool {
					// The gateway may still count the request that showed that it runs.
					status, err = e.Send(get, "x", time.Minute)
					return status != http.StatusServiceUnavailable
				})
				if err != nil || status != http.StatusOK {
					t.Errorf("a request within the limit: %d, %v; want 200", status, err)
				}
			})
		}
	}
	WaitUntil(t, "the requests within the limit reach the application", func() bool { return m.Requests() == before+most })
	for _, host := range []string{"shop.example", "blocked.example"} {
		if status, err := e.Send(HostileRequest{Line: get.Line, Headers: "Host: " + host}, "x", time.Minute); err != nil || status != http.StatusServiceUnavailable {
			t.Errorf("one more request of %s: %d, %v; want 503", host, status, err)
		}
	}
	release()
	crowd.Wait()
	if got := m.MostAtOnce(); got != most {
		t.Errorf("%d requests at the same time; want %d", got, most)
	}
}

// streams sends the same request several times at once on one connection, and waits until
// each has got a 200.
func (e Entrance) streams(t *testing.T, r HostileRequest, times int) {
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
