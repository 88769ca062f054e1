package envoy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// meter bounds the memory and work that the peers of all connections can cause before a
// call is decided.
// gRPC bounds the number of open streams and the size of a message, but not their
// product: it extends the window of a stream to the length that a message announces,
// so that one connection could hold 1024 times the maximum size. It also reads frames
// of reset streams without end: it only waits while its answers are not read.
type meter struct {
	perConnection, total int64 // maximum memory of unfinished requests
	maxResets            float64
	maxSettings          float64
	maxHeader            int
	maxWaits             int64 // calls of a connection that may wait for their turns
	exceeded             func(Bound, net.Addr)

	held   atomic.Int64 // memory of unfinished requests, in all
	ending sync.Mutex   // held by endLargest
	mu     sync.Mutex
	conns  map[*meteredConn]struct{}
	pauses map[netip.Prefix]time.Time // by the network of a peer: when its new connections are read
}

func newMeter(o *Options) *meter {
	return &meter{
		perConnection: o.MaxUnfinished, total: o.MaxUnfinishedTotal, maxResets: float64(o.MaxResets), maxSettings: float64(o.MaxSettings), maxHeader: int(o.MaxHeaderBytes),
		exceeded: o.Exceeded, maxWaits: int64(max(o.MaxStreams/2, 1)), conns: make(map[*meteredConn]struct{}), pauses: make(map[netip.Prefix]time.Time),
	}
}

// endLargest ends the connection that holds the most while all together hold too much.
func (m *meter) endLargest() {
	m.ending.Lock()
	defer m.ending.Unlock()
	if m.held.Load() <= m.total {
		return // another goroutine was first
	}
	if c := m.largest(); c != nil {
		_ = c.end(BoundUnfinishedTotal)
	}
}

func (m *meter) largest() *meteredConn {
	m.mu.Lock()
	defer m.mu.Unlock()
	var largest *meteredConn
	for c := range m.conns {
		if largest == nil || c.held.Load() > largest.held.Load() {
			largest = c
		}
	}
	return largest
}

// meteredConn is a connection whose frames are metered in both directions. It is above
// TLS.
type meteredConn struct {
	net.Conn
	raw   net.Conn // below TLS
	meter *meter
	held  atomic.Int64 // memory of unfinished requests
	// staying is the part of held for what streams that stay open have at their beginning.
	staying atomic.Int64
	close   sync.Once
	done    chan struct{} // closed by Close
	waits   Waits
	rest    *time.Timer // of the pause before the first Read; nil without one

	mu         sync.Mutex
	in, out    frameScanner
	begun      bool // a frame has arrived
	isClosed   bool
	header     int // bytes of the header block that arrives, encoded
	unfinished arrivals
	resets     allowance
	settings   allowance
}

// arrival is what has arrived of a stream that its peer has not finished.
type arrival struct {
	memory int64
	unread int64 // bytes of messages that no handler of a stream has read
	stays  bool  // a stream with a handler, which may stay open
}

// arrivals are the unfinished requests of a connection by stream. The newest is outside of the
// map, because usually the next frame finishes it. The zero value has none.
type arrivals struct {
	newest    uint32
	arrival   arrival // of the newest stream
	hasNewest bool
	older     map[uint32]arrival
}

func (a *arrivals) isNewest(stream uint32) bool { return a.hasNewest && a.newest == stream }

func (a *arrivals) of(stream uint32) (of arrival, isOpen bool) {
	if a.isNewest(stream) {
		return a.arrival, true
	}
	of, isOpen = a.older[stream]
	return of, isOpen
}

// set sets what has arrived of a stream. One that is not open becomes the newest.
func (a *arrivals) set(stream uint32, to arrival) {
	if _, isOlder := a.older[stream]; isOlder {
		a.older[stream] = to
		return
	}
	if a.hasNewest && a.newest != stream {
		if a.older == nil {
			a.older = make(map[uint32]arrival)
		}
		a.older[a.newest] = a.arrival
	}
	a.newest, a.arrival, a.hasNewest = stream, to, true
}

func (a *arrivals) remove(stream uint32) {
	if a.isNewest(stream) {
		a.hasNewest = false
		return
	}
	delete(a.older, stream)
}

// prefaceBytes is the length of the text that precedes a client's frames.
const prefaceBytes = 24

func (m *meter) wrap(conn, raw net.Conn) *meteredConn {
	c := &meteredConn{Conn: conn, raw: raw, meter: m, done: make(chan struct{}), in: frameScanner{skip: prefaceBytes}}
	c.waits.most = m.maxWaits
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conns[c] = struct{}{}
	c.rest = m.rest(conn.RemoteAddr())
	return c
}

// Read reads frames of the peer. It ends the connection if they exceed a bound.
func (c *meteredConn) Read(b []byte) (int, error) {
	c.waitForRest()
	n, err := c.Conn.Read(b)
	if n == 0 {
		if isTimeout(err) && !c.hasBegun() {
			c.meter.exceeded(BoundHandshake, c.RemoteAddr())
		}
		return n, err
	}
	if bound := c.received(b[:n]); bound != "" {
		return 0, c.end(bound)
	}
	if c.meter.held.Load() > c.meter.total {
		c.meter.endLargest()
	}
	return n, err
}

// hasBegun reports whether the peer has sent a frame, as the handshake requires.
func (c *meteredConn) hasBegun() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.begun
}

// Write sends frames of the server.
func (c *meteredConn) Write(b []byte) (int, error) {
	if bound := c.sent(b); bound != "" {
		return 0, c.end(bound)
	}
	return c.Conn.Write(b)
}

// Close closes the connection and releases its memory in the meter.
func (c *meteredConn) Close() error {
	c.close.Do(func() {
		close(c.done)
		c.meter.mu.Lock()
		delete(c.meter.conns, c)
		c.meter.mu.Unlock()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.isClosed, c.unfinished = true, arrivals{}
		c.settle(-c.held.Load())
	})
	return c.Conn.Close()
}

// errBound is the error of a connection that exceeded a bound.
var errBound = errors.New("the connection exceeded a bound")

// end ends the connection because of a bound, and reports it.
func (c *meteredConn) end(b Bound) error {
	c.meter.exceeded(b, c.RemoteAddr())
	if b == BoundSettings { // by which no gateway ends a connection
		c.meter.pause(c.RemoteAddr())
	}
	_ = c.raw.Close() // first: closing TLS waits for a peer that does not read
	_ = c.Close()     // the transport closes it again
	return fmt.Errorf("%w: %s", errBound, b)
}

// settle adds to the memory that the connection holds. c.mu is locked.
func (c *meteredConn) settle(change int64) {
	if change != 0 {
		c.held.Add(change)
		c.meter.held.Add(change)
	}
}

// received meters frames of the peer, and returns the bound that they exceed.
func (c *meteredConn) received(b []byte) (exceeded Bound) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed {
		return ""
	}
	var change int64
	for {
		f, rest, ok := c.in.next(b)
		if !ok {
			break
		}
		b, c.begun = rest, true
		switch f.kind {
		case frameHeaders, frameData, frameContinuation:
			change += c.grow(f)
			exceeded = c.countHeader(f, exceeded)
		case frameReset:
			change -= c.finish(f.stream)
			exceeded = c.countReset(exceeded)
		case frameSettings:
			if !f.has(flagAck) && !c.settings.take(c.meter.maxSettings, settingsBurst*c.meter.maxSettings) {
				exceeded = BoundSettings
			}
		}
	}
	c.settle(change)
	if exceeded == "" && c.held.Load() > c.meter.perConnection {
		return BoundUnfinished
	}
	return exceeded
}

// sent meters frames of the server: a call that it ends needs no more of its request.
// Its resets count too, because a peer can provoke them by invalid frames.
func (c *meteredConn) sent(b []byte) (exceeded Bound) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed {
		return ""
	}
	var change int64
	for {
		f, rest, ok := c.out.next(b)
		if !ok {
			break
		}
		b = rest
		if f.kind == frameReset || f.kind == frameHeaders && f.has(flagEndStream) {
			change -= c.finish(f.stream)
		}
		if refused := refusal(f, rest); refused != "" {
			c.meter.exceeded(refused, c.RemoteAddr())
		}
		if f.kind == frameReset {
			exceeded = c.countReset(exceeded)
		}
	}
	c.settle(change)
	return exceeded
}

// grow adds a part of a request to the memory of its stream, or finishes the stream
// with the last part. It returns the change of the memory.
func (c *meteredConn) grow(f frame) int64 {
	if f.kind != frameContinuation && f.has(flagEndStream) {
		return -c.finish(f.stream)
	}
	of, isOpen := c.unfinished.of(f.stream)
	added := frameMemory(f.length)
	switch {
	case isOpen:
	case f.kind == frameHeaders:
		added += streamMemory
	default:
		return 0 // gRPC drops what belongs to no open stream
	}
	of.memory += added
	if f.kind == frameData {
		of.unread += int64(f.length)
	}
	c.unfinished.set(f.stream, of)
	return added
}

// prefixBytes is the length of what precedes each message in gRPC.
const prefixBytes = 5

// read notes that the handler of a stream has read a message of this length. Once it has
// read all that has arrived, the stream holds no more memory than at its beginning; until
// then the meter cannot tell what a frame has been read of, and releases nothing.
func (c *meteredConn) read(stream uint32, length int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of, isOpen := c.unfinished.of(stream)
	if !isOpen {
		return
	}
	of.unread -= prefixBytes + int64(length)
	if of.unread == 0 {
		c.settle(streamMemory - of.memory)
		of.memory = streamMemory
	}
	c.unfinished.set(stream, of)
}

// stay notes that a stream has a handler, and may stay open.
func (c *meteredConn) stay(stream uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of, isOpen := c.unfinished.of(stream); isOpen && !of.stays {
		of.stays = true
		c.unfinished.set(stream, of)
		c.staying.Add(streamMemory)
	}
}

// finish forgets a stream. It returns the memory that it held.
func (c *meteredConn) finish(stream uint32) int64 {
	of, isOpen := c.unfinished.of(stream)
	if isOpen {
		c.unfinished.remove(stream)
	}
	if of.stays {
		c.staying.Add(-streamMemory) // before held becomes less: see isComplete
	}
	return of.memory
}

// countHeader counts a part of a header block, and returns the bound that is exceeded. A
// block is not longer encoded than decoded. gRPC resets a call with too many fields, but
// closes the connection without a word if one field is too long.
func (c *meteredConn) countHeader(f frame, exceeded Bound) Bound {
	switch f.kind {
	case frameHeaders:
		c.header = f.length
	case frameContinuation:
		c.header += f.length
	default:
		return exceeded
	}
	if c.header > c.meter.maxHeader {
		return BoundHeaderSize
	}
	return exceeded
}

// countReset counts a reset, and returns the bound that is exceeded.
func (c *meteredConn) countReset(exceeded Bound) Bound {
	if !c.resets.take(c.meter.maxResets, resetBurst*c.meter.maxResets) {
		return BoundResets
	}
	return exceeded
}
