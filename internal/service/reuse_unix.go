//go:build unix

package service

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// sharePort lets several processes listen at one address, as envoyproxy/ratelimit does.
func sharePort(_, _ string, c syscall.RawConn) error {
	var fault error
	err := c.Control(func(fd uintptr) { fault = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	return errors.Join(err, fault)
}
