package systemd_test

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/systemd"
)

func TestNotifySendsStatesToTheSocket(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"), "@koalagate-" + filepath.Base(t.TempDir())} {
		socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close()
		for _, state := range []string{systemd.Ready, systemd.Stopping} {
			if err := systemd.Notify([]string{"HOME=/", "NOTIFY_SOCKET=" + name}, state); err != nil {
				t.Fatal(err)
			}
			buffer := make([]byte, 64)
			if err := socket.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			n, err := socket.Read(buffer)
			if got := string(buffer[:n]); err != nil || got != state {
				t.Errorf("%s: received %q, %v, want %q", name, got, err, state)
			}
		}
	}
}

func TestNotifyWithoutSystemd(t *testing.T) {
	for _, environ := range [][]string{nil, {"HOME=/"}, {"NOTIFY_SOCKET="}} {
		if err := systemd.Notify(environ, systemd.Ready); err != nil {
			t.Errorf("%q: %v", environ, err)
		}
	}
	if systemd.Notify([]string{"NOTIFY_SOCKET=/nonexistent/notify"}, systemd.Ready) == nil {
		t.Error("a missing socket is no error")
	}
}
