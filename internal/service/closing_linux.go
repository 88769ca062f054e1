package service

import "golang.org/x/sys/unix"

// isQueueEmpty reports whether no connection waits at a listening socket to be accepted.
func isQueueEmpty(fd uintptr) bool {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	return err != nil || info.Unacked == 0 // tcp(7): for a listening socket, the length of its queue
}

// endListening makes a socket refuse connections.
func endListening(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RD) }
