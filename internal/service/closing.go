package service

import (
	"net"
	"sync/atomic"
	"time"
)

const (
	// maxQueueTime is the maximum time that the end of a listener waits for connections to
	// be accepted.
	maxQueueTime = 100 * time.Millisecond
	// queueCheck is the time between two looks at the queue.
	queueCheck = 50 * time.Microsecond
)

// gentleListener is a TCP listener whose Close resets no connection. When a listener
// closes, the kernel resets the connections that nobody has accepted yet, and a gateway
// does not repeat a check on such a connection: koalagate could have counted it. Close
// therefore waits, while another goroutine accepts.
type gentleListener struct {
	*net.TCPListener
	maxWait time.Duration // of Close
	ended   atomic.Bool
}

// Accept returns the next connection.
func (l *gentleListener) Accept() (net.Conn, error) {
	conn, err := l.TCPListener.Accept()
	if err != nil && l.ended.Load() {
		err = net.ErrClosed // the socket ends before its listener
	}
	return conn, err
}

// Close ends the listener when its queue is empty.
func (l *gentleListener) Close() error {
	for end := time.Now().Add(l.maxWait); !l.endIfEmpty() && time.Now().Before(end); {
		<-time.After(queueCheck)
	}
	return l.TCPListener.Close()
}

// endIfEmpty ends the socket if its queue is empty, and reports whether it has ended.
func (l *gentleListener) endIfEmpty() bool {
	socket, err := l.SyscallConn()
	if err == nil {
		err = socket.Control(func(fd uintptr) {
			if !l.ended.Load() && isQueueEmpty(fd) {
				l.ended.Store(true)
				// At once: closing the socket waits for the goroutine that accepts.
				endListening(fd)
			}
		})
	}
	return err != nil || l.ended.Load()
}
