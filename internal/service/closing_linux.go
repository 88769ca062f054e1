package service

import (
	"errors"

	"golang.org/x/sys/unix"
)

// isQueueEmpty reports whether no connection waits at a listening socket to be accepted.
func isQueueEmpty(fd uintptr) bool {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	return err != nil || info.Unacked == 0 // tcp(7): for a listening socket, the length of its queue
}

// endListening makes a socket refuse connections, and reports whether it does. A Unix socket keeps
// the connections in its queue.
func endListening(fd uintptr) bool { return unix.Shutdown(int(fd), unix.SHUT_RD) == nil }

// acceptQueued accepts a connection in the queue of a socket, without waiting for one.
func acceptQueued(fd uintptr) (int, error) {
	for {
		conn, _, err := unix.Accept4(int(fd), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ECONNABORTED) {
			return conn, err
		}
	}
}
