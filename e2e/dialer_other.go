//go:build !linux

package e2e

import (
	"net"
	"time"
)

// DialerFrom returns a dialer whose connections come from an address.
func DialerFrom(from net.IP, timeout time.Duration) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: from}, Timeout: timeout}
}
