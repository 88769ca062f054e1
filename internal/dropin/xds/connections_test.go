package xds_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/koalagate/koalagate/internal/dropin/xds"
)

// accept calls serve with each connection to an address, until the test ends.
func accept(t *testing.T, serve func(net.Conn)) (address string, connections *atomic.Int64) {
	t.Helper()
	l, n := listen(t), new(atomic.Int64)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			n.Add(1)
			go func() { defer conn.Close(); serve(conn) }()
		}
	}()
	return l.Addr().String(), n
}

// ends asserts that a client which runs with a control plane ends at once.
func ends(t *testing.T, address string, change func(*xds.Options), meanwhile func(*log)) {
	t.Helper()
	lines := &log{}
	o := xds.Options{Server: address, Logger: lines.logger(), Backoff: xds.Backoff{Initial: time.Millisecond, Max: 10 * time.Millisecond}}
	change(&o)
	client, err := xds.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); client.Run(ctx, &applied{}) }()
	meanwhile(lines)
	cancel()
	begun := time.Now()
	select {
	case <-ended:
		t.Logf("the end took %v", time.Since(begun))
	case <-time.After(10 * time.Second):
		t.Error("the client has not ended ten seconds after its context")
	}
}

// Servers that accept connections and never come to an answer are named in the log, with
// the reason, and the client ends at once while it waits for them.
func TestServersThatNeverAnswer(t *testing.T) {
	t.Parallel()
	swallow := func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }
	a, _ := authority(t, "plane")
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, a.Cert, 0o600); err != nil {
		t.Fatal(err)
	}
	slowly := func(conn net.Conn) { // a handshake of TLS, a byte at a time
		for {
			if _, err := conn.Write([]byte{22}); err != nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	for name, c := range map[string]struct {
		serve func(net.Conn)
		tls   xds.TLS
		want  string
	}{
		"accepts and is silent":        {swallow, xds.TLS{}, "no stream within"},
		"closes":                       {func(net.Conn) {}, xds.TLS{}, "no stream within"},
		"never finishes TLS":           {swallow, xds.TLS{Enabled: true, CA: ca}, "handshake"},
		"sends bytes slowly":           {slowly, xds.TLS{}, "no stream within"},
		"sends bytes slowly, with TLS": {slowly, xds.TLS{Enabled: true, CA: ca}, "handshake"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, connections := accept(t, c.serve)
			change := func(o *xds.Options) { o.TLS, o.ConnectTimeout = c.tls, 100*time.Millisecond }
			ends(t, address, change, func(lines *log) {
				waitFor(t, "named in the log: "+c.want, func() bool { return strings.Contains(lines.String(), c.want) })
				if n := connections.Load(); n > 20 {
					t.Errorf("%d connections", n)
				}
			})
		})
	}
}

// A server that ends each connection in good order as soon as it is open is called ten times
// at once and once a second from then on, although gRPC itself opens the next connection
// without a pause.
func TestStormOfGoaways(t *testing.T) {
	t.Parallel()
	address, connections := accept(t, func(conn net.Conn) {
		f := http2.NewFramer(conn, conn)
		if f.WriteSettings() == nil && f.WriteGoAway(0, http2.ErrCodeNo, []byte(strings.Repeat("x", 10_000))) == nil {
			_, _ = io.Copy(io.Discard, conn)
		}
	})
	begun := time.Now()
	ends(t, address, func(*xds.Options) {}, func(lines *log) {
		const many = 13 // the eleventh and each later one wait for their turns
		waitFor(t, "many connections", func() bool { return connections.Load() >= many })
		took, written := time.Since(begun), strings.Count(lines.String(), "\n")
		t.Logf("%d connections and %d lines in %v", many, written, took)
		if took < time.Second || written > 100 {
			t.Errorf("%d connections and %d lines in %v; want a second at least, and 100 lines", many, written, took)
		}
	})
}

// A response that arrives a few bytes at a time neither holds its announced size nor delays
// the end.
func TestResponseThatNeverArrivesWhole(t *testing.T) {
	var dripped atomic.Int64
	address, _ := accept(t, func(conn net.Conn) {
		f := http2.NewFramer(conn, conn)
		if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil || f.WriteSettings() != nil {
			return
		}
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			switch frame := frame.(type) {
			case *http2.SettingsFrame:
				if !frame.IsAck() {
					_ = f.WriteSettingsAck()
				}
			case *http2.HeadersFrame:
				go drip(f, frame.StreamID, &dripped)
			}
		}
	})
	ends(t, address, func(*xds.Options) {}, func(lines *log) {
		waitFor(t, "subscribed", func() bool { return strings.Contains(lines.String(), "subscribed") })
		waitFor(t, "a part of the response has been sent", func() bool { return dripped.Load() > 20 })
	})
}

// drip answers a stream with the begin of a message of 60 MB, a byte at a time, which it
// counts.
func drip(f *http2.Framer, stream uint32, bytes *atomic.Int64) {
	// :status 200 and content-type application/grpc, without a table.
	headers := append([]byte{0x88, 0x00, 12}, "content-type"...)
	headers = append(append(headers, 16), "application/grpc"...)
	if f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: headers, EndHeaders: true}) != nil ||
		f.WriteData(stream, false, []byte{0, 3, 0xff, 0xff, 0xff}) != nil {
		return
	}
	for f.WriteData(stream, false, []byte{0}) == nil {
		bytes.Add(1)
		time.Sleep(10 * time.Millisecond)
	}
}
