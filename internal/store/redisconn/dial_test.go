package redisconn

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// TestSilenceAtTheHandshake has rediss:// call what listens and does not speak
// TLS, as a Redis without it: what is missing is TLS, not speed.
func TestSilenceAtTheHandshake(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, conn) // until the caller gives up
			_ = conn.Close()
		}
	}()
	var failed *handshakeError
	// A busy machine may take a short time up before the handshake begins.
	for timeout := 50 * time.Millisecond; failed == nil && timeout < 10*time.Second; timeout *= 2 {
		var conn net.Conn
		if conn, err = new(TLSFiles).dialer(timeout)(t.Context(), "tcp", listener.Addr().String()); err == nil {
			_ = conn.Close()
		}
		errors.As(err, &failed)
	}
	_ = listener.Close()
	<-ended
	if failed == nil || !TimedOut(err) {
		t.Errorf("%v; want a handshake that was not answered in time", err)
	}
	if got := Remedy(err); !strings.Contains(got, "does it speak TLS there") {
		t.Errorf("the remedy is %q; want the question whether it speaks TLS", got)
	}
}
