package service

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/koalagate/koalagate/internal/config"
)

// Errors of listening name the setting and the remedy.
func TestListenErrorsNameTheRemedy(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, test := range []struct{ name, address, want string }{
		{"taken", taken.Addr().String(), "another program listens there"},
		{"in a missing folder", "unix:" + t.TempDir() + "/missing/x", "create the folder"},
		{"of another machine", "192.0.2.1:0", "want an address of this machine"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := config.Default()
			c.GRPCAddr, c.HTTPAddr = "127.0.0.1:0", test.address
			l, err := listenAll(t.Context(), &c, false)
			if err == nil {
				l.close()
				t.Fatal("no error")
			}
			if text := err.Error(); !strings.HasPrefix(text, "http_addr: ") || !strings.Contains(text, test.want) {
				t.Errorf("%q; want http_addr and %q", text, test.want)
			}
		})
	}
}

// A port that the user may not bind names the capability. Root may bind every port, so
// the error is made.
func TestForbiddenPortNamesTheCapability(t *testing.T) {
	err := &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", syscall.EACCES)}
	if got := listenRemedy(err); !strings.Contains(got, "CAP_NET_BIND_SERVICE") {
		t.Errorf("the remedy of %v is %q; want the capability", err, got)
	}
}
