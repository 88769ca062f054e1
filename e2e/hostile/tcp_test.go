package hostile_test

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// greeter is a server that greets its clients, and counts them.
type greeter struct {
	address string
	clients atomic.Int64
}

const greeting = "220 welcome\r\n"

func newGreeter(t *testing.T) *greeter {
	t.Helper()
	l := rig.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	g := &greeter{address: l.Addr().String()}
	var conversations sync.WaitGroup
	conversations.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // the listener was closed
			}
			g.clients.Add(1)
			conversations.Go(func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(10 * time.Second)) // fails only on a closed connection, as the next lines do
				_, _ = io.WriteString(conn, greeting)
				_, _ = io.Copy(io.Discard, conn)
			})
		}
	})
	t.Cleanup(func() { l.Close(); conversations.Wait() })
	return g
}

// tcpRules refuse an address and a name of TLS.
const tcpRules = `
[params]
name : sni
[rules]
rule : [direct] [door=extauthz; ip=127.0.0.2]        [] [result=2; return=101]
rule : [direct] [door=extauthz; name=blocked.example] [] [result=2; return=102]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// A refused client does not reach the server behind the TCP sample, whatever it sends first,
// and gets nothing from it. Its address is its own, and its name the one that TLS states.
func TestHostileConnectionsReachNothingUnchecked(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	k := h.Koalagate("--rules", h.File("rules.conf", tcpRules))
	server := newGreeter(t)
	start := func() *e2e.Gateway {
		return rig.Must(h.Stage.EnvoySample("envoy/envoy-tcp.yaml",
			[2]string{"port_value: 9901 ", "port_value: 0 "}, [2]string{"port_value: 10000 ", "port_value: 0 "},
			[2]string{"port_value: 8000 ", "port_value: " + rig.Port(server.address) + " "},
			[2]string{"port_value: 9191 ", "port_value: " + rig.Port(k.GRPC) + " "}))(t)
	}
	plain := start()
	h.OfferTLS("shop.example")
	secure := start()
	for _, c := range []struct {
		name, from, text string
		sni              string // "" for plain text
		isAllowed        bool
	}{
		{"an allowed one", "127.0.0.1", "hello", "", true},
		{"an allowed one over TLS", "127.0.0.1", "hello", "shop.example", true},
		{"data at once", "127.0.0.2", "hello", "", false},
		{"silence", "127.0.0.2", "", "", false},
		{"another address by the PROXY protocol", "127.0.0.2", "PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\nhello", "", false},
		{"its second version", "127.0.0.2", "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\x7f\x00\x00\x01\x7f\x00\x00\x01\x00\x01\x00\x02hello", "", false},
		{"TLS without TLS", "127.0.0.1", "hello", "-", false},
		{"silence over TLS", "127.0.0.2", "", "shop.example", false},
		{"a refused name", "127.0.0.1", "hello", "blocked.example", false},
		{"a refused name in other letters", "127.0.0.1", "hello", "BLOCKED.Example", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := server.clients.Load()
			g := secure
			if c.sni == "" {
				g = plain
			}
			rig.Concurrently(30, func(int) {
				got := greetingOf(t, g.Listeners["tcp"], c.from, c.sni, c.text)
				if c.isAllowed && got != greeting || !c.isAllowed && strings.HasPrefix(greeting, got) && got != "" {
					t.Errorf("the client got %q; want an answer of the server: %t", got, c.isAllowed)
				}
			})
			if reached := server.clients.Load() - before; !c.isAllowed && reached != 0 {
				t.Errorf("%d connections reached the server; want none", reached)
			}
		})
	}
}

// greetingOf connects from an address, sends a text, and returns what
// the server says. The name "-" is plain text sent to a listener of TLS.
func greetingOf(t *testing.T, address, from, sni, text string) string {
	d := e2e.DialerFrom(net.ParseIP(from), 10*time.Second)
	conn, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer conn.Close()
	wait := 10 * time.Second
	if text == "" {
		wait = 500 * time.Millisecond // the gateway waits, too
	}
	if err := conn.SetDeadline(time.Now().Add(wait)); err != nil {
		t.Error(err)
	}
	if sni != "" && sni != "-" {
		conn = tls.Client(conn, &tls.Config{ServerName: sni, InsecureSkipVerify: true})
	}
	_, _ = io.WriteString(conn, text) // the gateway may have closed the connection
	answer := make([]byte, len(greeting))
	n, _ := io.ReadFull(conn, answer) // a short answer is allowed
	return string(answer[:n])
}
