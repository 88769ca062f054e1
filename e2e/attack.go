package e2e

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Attack is a way in which peers that reach an instance can misuse it.
type Attack struct {
	Name string
	// Peers is the number of peers that attack at a time.
	Peers int
	// Rounds is the number of attempts of each peer in a test. A peer with one round
	// keeps what it opened until its context ends.
	Rounds int
	// Attempt attacks once: until the service closes the connection, or ctx ends. It
	// returns an error if the peer could not connect.
	Attempt func(ctx context.Context) error
}

// Attacks returns the attacks on an instance, all from another loopback address than
// that of gateways.
func Attacks(k *Koalagate) []Attack {
	flood := func(send func(*http2.Framer, uint32) error) func(context.Context) error {
		return func(ctx context.Context) error { return flood(ctx, k.GRPC, send) }
	}
	text := func(address string, texts ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			for _, text := range texts {
				if err := sendPart(ctx, address, text); err != nil {
					return err
				}
			}
			return nil
		}
	}
	long := "GET /v1/auth-request HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-H: "+strings.Repeat("x", 10_000)+"\r\n", 1000)
	return []Attack{
		{"2000 idle connections", 1, 1, func(ctx context.Context) error { return idle(ctx, 1000, k.GRPC, k.HTTP) }},
		{"canceled calls", 1, 2, flood(cancelCall)},
		{"changes of settings with 1000 open calls", 1, 2, flood(toggleSettings)},
		{"1000 calls without their requests", 1, 2, flood(beginOnly)},
		{"gRPC headers without end", 1, 10, flood(endlessHeader)},
		{"HTTP headers of 10 MB", 1, 10, text(k.HTTP, long)},
		{"slow headers", 20, 2, func(ctx context.Context) error { return trickle(ctx, k.HTTP) }},
		{"malformed requests over HTTP", 64, 5, text(k.HTTP, malformed...)},
		{"malformed requests over gRPC", 64, 5, text(k.GRPC, malformed...)},
	}
}

// malformed lists requests that no address can read, or that no door can.
var malformed = []string{
	"GET\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", http2.ClientPreface + strings.Repeat("\xff", 9000),
	"POST /v1/auth-request HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
	"GET /v1/auth-request HTTP/1.1\r\nHost: x\r\nX-Original-Method: GET\r\nX-Original-URI: /%zz\r\nX-Real-IP: nobody\r\nConnection: close\r\n\r\n",
	"GET /rule/take?" + strings.Repeat("%zz=&", 5000) + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
}

// dial opens a connection as an attacker, which ends with ctx.
func dial(ctx context.Context, address string) (net.Conn, error) {
	d := DialerFrom(net.IPv4(127, 0, 0, 2), 10*time.Second)
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { conn.Close() })
	return conn, nil
}

// idle opens n connections to each address, which stay open until ctx ends.
func idle(ctx context.Context, n int, addresses ...string) error {
	for range n {
		for _, address := range addresses {
			if _, err := dial(ctx, address); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendPart sends text on a connection of its own, and reads the answer until the service
// or, after half a second, the attacker closes it.
func sendPart(ctx context.Context, address, text string) error {
	conn, err := dial(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(500 * time.Millisecond)) // fails only on a closed connection, as the next lines do
	_, _ = io.WriteString(conn, text)
	_, _ = io.Copy(io.Discard, conn)
	return nil
}

// trickle sends a header byte by byte until the service closes the connection.
func trickle(ctx context.Context, address string) error {
	conn, err := dial(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	text := "GET /v1/auth-request HTTP/1.1\r\nHost: x\r\nX-H: "
	for i := 0; err == nil; i++ {
		_, err = io.WriteString(conn, text[min(i, len(text)-1):][:1])
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}

// flood sends frames on one connection until the service closes it, or for 100,000
// rounds. It answers nothing.
func flood(ctx context.Context, address string, send func(f *http2.Framer, round uint32) error) error {
	conn, err := dial(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	closed := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, conn) // until the connection ends
		close(closed)
	}()
	out := &packets{conn: conn}
	framer := http2.NewFramer(out, conn)
	_, _ = io.WriteString(conn, http2.ClientPreface) // the frames fail, too
	_ = framer.WriteSettings()
	for round := range uint32(100_000) {
		if err := send(framer, round); err != nil {
			break
		}
	}
	_, _ = out.frames.WriteTo(conn) // the service may have closed it
	select {
	case <-closed:
	case <-time.After(time.Second): // holds what it has sent for a moment
	}
	return nil
}

// packets sends frames in packets of 16 kB, which cost the attacker little.
type packets struct {
	conn   net.Conn
	frames bytes.Buffer
}

// Write adds a frame.
func (p *packets) Write(frame []byte) (int, error) {
	p.frames.Write(frame)
	if p.frames.Len() < 16<<10 {
		return len(frame), nil
	}
	_, err := p.frames.WriteTo(p.conn)
	return len(frame), err
}

// callBlock returns the encoded header of a call of ext_authz, which is the same for
// every call.
var callBlock = sync.OnceValue(func() []byte {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: "/envoy.service.auth.v3.Authorization/Check"},
		{Name: ":authority", Value: "koalagate"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
	} {
		f.Sensitive = true        // not added to the table of the connection
		_ = encoder.WriteField(f) // a bytes.Buffer does not fail
	}
	return block.Bytes()
})

func beginCall(f *http2.Framer, stream uint32) error {
	return f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: callBlock(), EndHeaders: true})
}

// cancelCall begins a call and cancels it.
func cancelCall(f *http2.Framer, round uint32) error {
	if err := beginCall(f, 2*round+1); err != nil {
		return err
	}
	return f.WriteRSTStream(2*round+1, http2.ErrCodeCancel)
}

// toggleSettings changes the windows of 1000 open calls.
func toggleSettings(f *http2.Framer, round uint32) error {
	if round < 1000 {
		return beginCall(f, 2*round+1)
	}
	return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 65535 - round%2})
}

// beginOnly announces 500 kB in each of 1000 calls, and does not send them.
func beginOnly(f *http2.Framer, round uint32) error {
	if round >= 1000 {
		return io.EOF
	}
	if err := beginCall(f, 2*round+1); err != nil {
		return err
	}
	return f.WriteData(2*round+1, false, []byte{0, 0, 7, 0xa1, 0x20, 1, 2, 3})
}

// endlessHeader continues a header without end.
func endlessHeader(f *http2.Framer, round uint32) error {
	if round == 0 {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: callBlock()})
	}
	return f.WriteContinuation(1, false, make([]byte, 16<<10))
}
