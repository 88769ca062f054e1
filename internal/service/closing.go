package service

import (
	"net"
	"os"
	"sync"
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

// gentleUnixListener is a listener of a Unix socket whose Close resets no connection: the socket
// refuses new ones, and Close waits while another goroutine accepts those in the queue.
type gentleUnixListener struct {
	*net.UnixListener
	maxWait time.Duration // of Close
	ended   atomic.Bool
	drained chan struct{} // closed when nothing is left to accept
	once    sync.Once     // closes drained
}

func newGentleUnixListener(l *net.UnixListener) *gentleUnixListener {
	return &gentleUnixListener{UnixListener: l, maxWait: maxQueueTime, drained: make(chan struct{})}
}

// Accept returns the next connection.
func (l *gentleUnixListener) Accept() (net.Conn, error) {
	conn, err := l.UnixListener.Accept()
	if err == nil || !l.ended.Load() {
		return conn, err
	}
	if conn := l.queued(); conn != nil {
		return conn, nil
	}
	l.once.Do(func() { close(l.drained) })
	return nil, net.ErrClosed // the socket ends before its listener
}

// queued returns a connection in the queue, nil if there is none.
func (l *gentleUnixListener) queued() (conn net.Conn) {
	socket, err := l.SyscallConn()
	if err != nil {
		return nil
	}
	// An error means that the queue is empty, or that the socket is closed.
	_ = socket.Control(func(fd uintptr) {
		if accepted, err := acceptQueued(fd); err == nil {
			file := os.NewFile(uintptr(accepted), l.Addr().String())
			defer file.Close()
			conn, _ = net.FileConn(file)
		}
	})
	return conn
}

// Close ends the listener when its queue is empty. It removes the path first: another process may
// listen there as soon as the socket refuses connections.
func (l *gentleUnixListener) Close() error {
	if l.ended.Swap(true) {
		return l.UnixListener.Close()
	}
	l.SetUnlinkOnClose(false)
	_ = os.Remove(l.Addr().String()) // an operator may have removed it
	if l.endListening() {
		_ = l.SetDeadline(time.Now()) // Accept returns what is in the queue
		wait := time.NewTimer(l.maxWait)
		defer wait.Stop()
		select {
		case <-l.drained:
		case <-wait.C:
		}
	}
	return l.UnixListener.Close()
}

// endListening makes the socket refuse connections, and reports whether it does.
func (l *gentleUnixListener) endListening() (ended bool) {
	socket, err := l.SyscallConn()
	if err == nil {
		err = socket.Control(func(fd uintptr) { ended = endListening(fd) })
	}
	return err == nil && ended
}
