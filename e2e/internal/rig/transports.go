package rig

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
	Name           string
	IsTLS, IsHTTP2 bool
}

// Transports are the ways in which requests of clients come to gateways.
var Transports = []transport{
	{"HTTP/1.1", false, false}, {"HTTP/2", false, true}, {"HTTP/1.1 over TLS", true, false}, {"HTTP/2 over TLS", true, true},
}

// StartSample starts a sample in front of an application.
type StartSample func(h *Fixture, app string, instances ...*e2e.Koalagate) *e2e.Gateway

// HTTPSample is a sample that checks HTTP requests.
type HTTPSample struct {
	Name  string
	Start StartSample
	// AcceptsPriorKnowledge is set if its plain listener accepts HTTP/2.
	AcceptsPriorKnowledge bool
	// FailsOpen is set if it lets requests pass whose checks fail.
	FailsOpen bool
	// HasRoutes is set if its routes set act of downloads.
	HasRoutes bool
}

// Entrance is a gateway's listener with one of the transports that it accepts.
type Entrance struct {
	*HTTPSample
	Gateway   *e2e.Gateway
	Transport transport
}

// Entrances starts samples in plain text and with TLS, and returns their entrances by name.
func (h *Fixture) Entrances(samples []HTTPSample, app string, instances ...*e2e.Koalagate) map[string]Entrance {
	h.Helper()
	all := make(map[string]Entrance)
	start := func(isTLS bool) {
		for i := range samples {
			g := samples[i].Start(h, app, instances...)
			for _, t := range Transports {
				if t.IsTLS == isTLS && (t != Transports[1] || samples[i].AcceptsPriorKnowledge) {
					all[samples[i].Name+", "+t.Name] = Entrance{&samples[i], g, t}
				}
			}
		}
	}
	start(false)
	h.OfferTLS("shop.example")
	start(true)
	return all
}

// OfferTLS makes gateways started from now on accept TLS, with a certificate for a name.
func (h *Fixture) OfferTLS(name string) {
	h.Helper()
	authority := h.Authority("shop-ca")
	cert, key := h.Sign(authority, name)
	if err := h.Stage.OfferTLS(cert, key, authority.File); err != nil {
		h.Fatal(err)
	}
}

// dial opens a connection whose deadline is after wait.
func (e Entrance) dial(wait time.Duration) (net.Conn, error) { return e.DialFrom("127.0.0.1", wait) }

// handshakes bounds the TLS handshakes in progress. The samples cut a client off 5 seconds after
// it connected without a request, and a thousand handshakes at once take longer on a busy machine.
var handshakes = make(chan struct{}, 16)

// DialFrom is like dial, from an address. With TLS, it waits first until few others shake hands.
func (e Entrance) DialFrom(address string, wait time.Duration) (net.Conn, error) {
	if e.Transport.IsTLS {
		handshakes <- struct{}{}
		defer func() { <-handshakes }()
	}
	dialer := e2e.DialerFrom(net.ParseIP(address), wait)
	conn, err := dialer.Dial("tcp", e.Gateway.Address)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(wait)); err != nil || !e.Transport.IsTLS {
		return conn, err
	}
	config := e.Gateway.TLS.Clone()
	config.NextProtos = []string{"http/1.1"}
	if e.Transport.IsHTTP2 {
		config.NextProtos = []string{"h2"}
	}
	secure := tls.Client(conn, config)
	return secure, secure.Handshake()
}

// Send sends a request on a connection of its own, as the gateway's user if it authenticates,
// and returns the final status.
func (e Entrance) Send(r HostileRequest, trace string, wait time.Duration) (int, error) {
	return e.SendFrom("127.0.0.1", e.Gateway.Credentials(), r, trace, wait)
}

// SendFrom is like send, from an address, and with other credentials.
func (e Entrance) SendFrom(address string, credentials []string, r HostileRequest, trace string, wait time.Duration) (int, error) {
	conn, err := e.DialFrom(address, wait)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if !e.Transport.IsHTTP2 {
		return ExchangeRaw(conn, r.raw(trace, credentials...))
	}
	c := newH2Client(conn)
	_ = c.send(1, r.http2(trace, credentials...)) // fails if it is refused before its end, as is read below
	_, status, err := c.answer()
	return status, err
}

// ExchangeRaw sends a request of HTTP/1.1 byte for byte, and returns the final status.
func ExchangeRaw(conn net.Conn, request string) (int, error) {
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
func (r HostileRequest) http2(trace string, credentials ...string) H2Request {
	own := []Field{{"x-trace", trace}}
	for _, line := range credentials {
		name, value, _ := strings.Cut(line, ": ")
		own = append(own, Field{strings.ToLower(name), value})
	}
	if r.Only != nil {
		request := *r.Only
		request.Fields = slices.Concat(request.Fields, own)
		return request
	}
	method, rest, _ := strings.Cut(r.Line, " ")
	target := rest
	if at := strings.LastIndexByte(rest, ' '); at >= 0 {
		target = rest[:at]
	}
	lines, body, _ := strings.Cut(r.Headers, "\r\n\r\n")
	var authority, others []Field
	for line := range strings.SplitSeq(lines, "\r\n") {
		name, value, found := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case !found:
		case strings.EqualFold(name, "host") && authority == nil:
			authority = []Field{{":authority", value}}
		default:
			others = append(others, Field{strings.ToLower(name), value})
		}
	}
	request := H2Request{Fields: []Field{{":method", method}, {":scheme", "https"}}, Body: body}
	request.Fields = slices.Concat(request.Fields, authority, []Field{{":path", target}}, others, own)
	return request
}
