package redisconn

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// TestSilentHandshakeIsReportedAsMissingTLS dials with TLS a listener that never
// answers the handshake, as a Redis without TLS does. The remedy must name TLS, not
// the timeout.
func TestSilentHandshakeIsReportedAsMissingTLS(t *testing.T) {
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
			_, _ = io.Copy(io.Discard, conn) // until the client hangs up
			_ = conn.Close()
		}
	}()
	var failed *handshakeError
	// On a busy machine a short timeout may end before the handshake begins.
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
		t.Errorf("%v; want a handshake that timed out", err)
	}
	if got := Remedy(err); !strings.Contains(got, "does it speak TLS there") {
		t.Errorf("the remedy is %q; want one that asks for TLS", got)
	}
}
