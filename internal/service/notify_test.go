package service

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A service tells systemd when it answers and when it begins to end.
func TestServiceNotifiesSystemd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	s, err := Open(t.Context(), Options{Config: load(t, nil), Log: io.Discard, Environ: []string{"GOGC=100", "NOTIFY_SOCKET=" + path}})
	if err != nil {
		t.Fatal(err)
	}
	stop, ended := make(chan os.Signal, 1), make(chan error, 1)
	go func() { ended <- s.Run(context.Background(), stop, nil) }()
	for _, want := range []string{"READY=1", "STOPPING=1"} {
		if err := socket.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		buffer := make([]byte, 64)
		n, err := socket.Read(buffer)
		if got := string(buffer[:n]); err != nil || got != want {
			t.Errorf("received %q, %v, want %q", got, err, want)
		}
		if want == "READY=1" {
			stop <- os.Interrupt
		}
	}
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}
