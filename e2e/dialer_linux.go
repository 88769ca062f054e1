package e2e

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// DialerFrom returns a dialer whose connections come from an address. Their ports are chosen
// when the target is known, so that connections to others do not use them up.
func DialerFrom(from net.IP, timeout time.Duration) *net.Dialer {
	return &net.Dialer{
		LocalAddr: &net.TCPAddr{IP: from}, Timeout: timeout,
		Control: func(_, _ string, raw syscall.RawConn) (err error) {
			failed := raw.Control(func(descriptor uintptr) {
				err = unix.SetsockoptInt(int(descriptor), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
			})
			if failed != nil {
				return failed
			}
			return err
		},
	}
}
