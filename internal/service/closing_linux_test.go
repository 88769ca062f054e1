package service

import (
	"errors"
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A listener that closes still hands over the connections that wait in its queue, and
// refuses new ones.
func TestListenerClosesGently(t *testing.T) {
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": "unix:" + filepath.Join(t.TempDir(), "s")} {
		t.Run(network, func(t *testing.T) { closeGently(t, network, address) })
	}
}

// closeGently closes a listener at an address while connections wait.
func closeGently(t *testing.T, network, address string) {
	l, err := listen(t.Context(), address, false)
	if err != nil {
		t.Fatal(err)
	}
	switch gentle := l.(type) {
	case *gentleListener:
		gentle.maxWait = time.Minute
	case *gentleUnixListener:
		gentle.maxWait = time.Minute
	}
	const waiting = 20
	clients := make([]net.Conn, waiting)
	for i := range clients {
		if clients[i], err = net.Dial(network, l.Addr().String()); err != nil {
			t.Fatal(err)
		}
		defer clients[i].Close()
	}
	closed := make(chan error, 1)
	go func() { closed <- l.Close() }()
	for range waiting {
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Error(err)
		}
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accepting after the last one: %v; want net.ErrClosed", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	for _, c := range clients {
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Errorf("a connection that had waited: %v", err)
		}
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accepting after the end: %v; want net.ErrClosed", err)
	}
	if conn, err := net.Dial(network, l.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ENOENT) {
		t.Errorf("dialing after the end: %v, %v; want refused", conn, err)
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closing again: %v; want net.ErrClosed", err)
	}
}

// Connections that nobody accepts do not keep a listener from closing.
func TestListenerClosesWithoutAccepting(t *testing.T) {
	l, err := listen(t.Context(), "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection that was not accepted: %v; want a reset", err)
	}
}
