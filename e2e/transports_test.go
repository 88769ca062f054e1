package e2e_test

import (
	"bufio"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/koalagate/koalagate/e2e"
)

// transport is how requests of clients come to a gateway.
type transport struct {
	name           string
	isTLS, isHTTP2 bool
}

var transports = []transport{
	{"HTTP/1.1", false, false}, {"HTTP/2", false, true}, {"HTTP/1.1 over TLS", true, false}, {"HTTP/2 over TLS", true, true},
}

// startSample starts a sample in front of an application.
type startSample func(h *fixture, app string, instances ...*e2e.Koalagate) *e2e.Gateway

// httpSample is a sample that checks HTTP requests.
type httpSample struct {
	name  string
	start startSample
	// acceptsPriorKnowledge is set if its plain listener accepts HTTP/2.
	acceptsPriorKnowledge bool
	// failsOpen is set if it lets requests pass whose checks fail.
	failsOpen bool
	// hasRoutes is set if its routes set act of downloads.
	hasRoutes bool
}

// entrance is a gateway's listener with one of the transports that it accepts.
type entrance struct {
	*httpSample
	gateway   *e2e.Gateway
	transport transport
}

// entrances starts samples in plain text and with TLS, and returns their entrances by name.
func (h *fixture) entrances(samples []httpSample, app string, instances ...*e2e.Koalagate) map[string]entrance {
	h.Helper()
	all := make(map[string]entrance)
	start := func(isTLS bool) {
		for i := range samples {
			g := samples[i].start(h, app, instances...)
			for _, t := range transports {
				if t.isTLS == isTLS && (t != transports[1] || samples[i].acceptsPriorKnowledge) {
					all[samples[i].name+", "+t.name] = entrance{&samples[i], g, t}
				}
			}
		}
	}
	start(false)
	h.offerTLS("shop.example")
	start(true)
	return all
}

// offerTLS makes gateways started from now on accept TLS, with a certificate for a name.
func (h *fixture) offerTLS(name string) {
	h.Helper()
	authority := h.authority("shop-ca")
	cert, key := h.sign(authority, name)
	if err := h.stage.OfferTLS(cert, key, authority.file); err != nil {
		h.Fatal(err)
	}
}

// dial opens a connection whose deadline is after wait.
func (e entrance) dial(wait time.Duration) (net.Conn, error) { return e.dialFrom("127.0.0.1", wait) }

// dialFrom is like dial, from an address.
func (e entrance) dialFrom(address string, wait time.Duration) (net.Conn, error) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: wait}
	conn, err := dialer.Dial("tcp", e.gateway.Address)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(wait)); err != nil || !e.transport.isTLS {
		return conn, err
	}
	config := e.gateway.TLS.Clone()
	config.NextProtos = []string{"http/1.1"}
	if e.transport.isHTTP2 {
		config.NextProtos = []string{"h2"}
	}
	secure := tls.Client(conn, config)
	return secure, secure.Handshake()
}

// send sends a request on a connection of its own, as the gateway's user if it authenticates,
// and returns the final status.
func (e entrance) send(r hostileRequest, trace string, wait time.Duration) (int, error) {
	return e.sendFrom("127.0.0.1", e.gateway.Credentials(), r, trace, wait)
}

// sendFrom is like send, from an address, and with other credentials.
func (e entrance) sendFrom(address string, credentials []string, r hostileRequest, trace string, wait time.Duration) (int, error) {
	conn, err := e.dialFrom(address, wait)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if !e.transport.isHTTP2 {
		return exchangeRaw(conn, r.raw(trace, credentials...))
	}
	c := newH2Client(conn)
	_ = c.send(1, r.http2(trace, credentials...)) // fails if it is refused before its end, as is read below
	_, status, err := c.answer()
	return status, err
}

// exchangeRaw sends a request of HTTP/1.1 byte for byte, and returns the final status.
func exchangeRaw(conn net.Conn, request string) (int, error) {
	// The answer may arrive before the end of a long request was sent.
	go func() {
		_, _ = conn.Write([]byte(request + "\r\n\r\n"))
	}()
	for answers := bufio.NewReader(conn); ; {
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			return 0, err
		}
		if resp.StatusCode >= 200 {
			return resp.StatusCode, resp.Body.Close()
		}
	}
}

// http2 returns a request of HTTP/1.1 as one of HTTP/2, or the request that only HTTP/2 can
// express, with a trace and credentials.
func (r hostileRequest) http2(trace string, credentials ...string) h2Request {
	own := []field{{"x-trace", trace}}
	for _, line := range credentials {
		name, value, _ := strings.Cut(line, ": ")
		own = append(own, field{strings.ToLower(name), value})
	}
	if r.only != nil {
		request := *r.only
		request.fields = slices.Concat(request.fields, own)
		return request
	}
	method, rest, _ := strings.Cut(r.line, " ")
	target := rest
	if at := strings.LastIndexByte(rest, ' '); at >= 0 {
		target = rest[:at]
	}
	lines, body, _ := strings.Cut(r.headers, "\r\n\r\n")
	var authority, others []field
	for line := range strings.SplitSeq(lines, "\r\n") {
		name, value, found := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case !found:
		case strings.EqualFold(name, "host") && authority == nil:
			authority = []field{{":authority", value}}
		default:
			others = append(others, field{strings.ToLower(name), value})
		}
	}
	request := h2Request{fields: []field{{":method", method}, {":scheme", "https"}}, body: body}
	request.fields = slices.Concat(request.fields, authority, []field{{":path", target}}, others, own)
	return request
}
