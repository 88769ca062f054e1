package e2e

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// Relay forwards connections to another address and counts them, to show whether a
// gateway keeps its connections.
type Relay struct {
	Address string // host:port
	opened  atomic.Int64
}

// Opened returns the number of connections so far.
func (r *Relay) Opened() int64 { return r.opened.Load() }

// Relay starts a relay to an address.
func (s *Stage) Relay(to string) (*Relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Relay{Address: l.Addr().String()}
	var ends sync.Map // open connections, both ends of each
	var group sync.WaitGroup
	group.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return // the listener was closed
			}
			r.opened.Add(1)
			group.Go(func() { pass(from, to, &ends) })
		}
	})
	s.closers = append(s.closers, func() {
		_ = l.Close()
		ends.Range(func(end, _ any) bool {
			_ = end.(net.Conn).Close()
			return true
		})
		group.Wait()
	})
	return r, nil
}

// pass copies in both directions until one end closes, and then closes the other.
func pass(from net.Conn, to string, ends *sync.Map) {
	ends.Store(from, nil)
	defer ends.Delete(from)
	defer from.Close()
	onward, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	ends.Store(onward, nil)
	defer ends.Delete(onward)
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(from, onward) // ends with the connection
		_ = from.Close()
	})
	_, _ = io.Copy(onward, from)
	_ = onward.Close()
	back.Wait()
}
