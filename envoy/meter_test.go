package envoy

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"

	"golang.org/x/net/http2"
)

// rawPeer is a connection whose frames a test writes; what it sends is discarded.
type rawPeer struct {
	net.Conn
	frames bytes.Buffer
}

func (p *rawPeer) Read(b []byte) (int, error)  { return p.frames.Read(b) }
func (p *rawPeer) Write(b []byte) (int, error) { return len(b), nil }
func (p *rawPeer) Close() error                { return nil }
func (p *rawPeer) RemoteAddr() net.Addr        { return &net.TCPAddr{} }

// newPeer returns a metered connection that has read the preface.
func newPeer(t *testing.T) (*meteredConn, *rawPeer, *http2.Framer) {
	t.Helper()
	o := withDefaults(Options{})
	p := new(rawPeer)
	c := newMeter(&o).wrap(p, p)
	p.frames.WriteString(http2.ClientPreface)
	readAll(t, c, 7)
	return c, p, http2.NewFramer(&p.frames, nil)
}

// readAll reads everything that the peer has sent, n bytes at a time.
func readAll(t *testing.T, c *meteredConn, n int) {
	t.Helper()
	b := make([]byte, n)
	for {
		if _, err := c.Read(b); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// Requests hold memory until they are complete, canceled or answered, or until the
// connection ends.
func TestMeterReleasesFinishedRequests(t *testing.T) {
	const part = 1000
	for name, finish := range map[string]func(c *meteredConn, f *http2.Framer){
		"complete":        func(_ *meteredConn, f *http2.Framer) { f.WriteData(1, true, make([]byte, part)) },
		"complete, empty": func(_ *meteredConn, f *http2.Framer) { f.WriteData(1, true, nil) },
		"canceled":        func(_ *meteredConn, f *http2.Framer) { f.WriteRSTStream(1, http2.ErrCodeCancel) },
		"answered": func(c *meteredConn, _ *http2.Framer) {
			http2.NewFramer(c, nil).WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true, EndHeaders: true})
		},
		"reset by the server": func(c *meteredConn, _ *http2.Framer) { http2.NewFramer(c, nil).WriteRSTStream(1, http2.ErrCodeNo) },
		"closed":              func(c *meteredConn, _ *http2.Framer) { c.Close(); c.Close() },
	} {
		for _, n := range []int{1, 8, 10, 100000} { // reads end anywhere in a frame
			c, _, f := newPeer(t)
			f.WriteSettings()
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: make([]byte, 100), EndHeaders: false})
			f.WriteContinuation(1, true, make([]byte, 50))
			f.WriteData(1, false, make([]byte, part))
			f.WriteData(3, false, make([]byte, part)) // of no open stream
			readAll(t, c, n)
			if got, want := c.held.Load(), int64(streamMemory+100+64+50+64+part+64); got != want || c.meter.held.Load() != want {
				t.Errorf("%s, reads of %d bytes: %d held, %d in all; want %d", name, n, got, c.meter.held.Load(), want)
			}
			finish(c, f)
			readAll(t, c, n)
			f.WriteData(1, false, make([]byte, part)) // sent before the client knew
			readAll(t, c, n)
			if c.held.Load() != 0 || c.meter.held.Load() != 0 || c.unfinished.len() != 0 {
				t.Errorf("%s: %d held, %d in all, %d streams; want none", name, c.held.Load(), c.meter.held.Load(), c.unfinished.len())
			}
			c.Close()
			if len(c.meter.conns) != 0 {
				t.Error("the meter keeps a closed connection")
			}
		}
	}
}

// A stream that stays open is no request that has yet to arrive, once its messages are read.
func TestStreamsThatStayAreNoUnfinishedRequests(t *testing.T) {
	c, _, f := newPeer(t)
	arrives := func(name string, want bool, send func()) {
		t.Helper()
		send()
		readAll(t, c, 100000)
		if got := c.held.Load() != c.staying.Load(); got != want {
			t.Errorf("%s: something has yet to arrive: %t; want %t", name, got, want)
		}
	}
	message := make([]byte, prefixBytes+10)
	begin := func(stream uint32) {
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: make([]byte, 100), EndHeaders: true})
	}
	arrives("a header", true, func() { begin(1) })
	arrives("a message", true, func() { f.WriteData(1, false, message); c.stay(1); c.stay(1); c.stay(9) })
	arrives("the message is read", false, func() { c.read(1, 10) })
	arrives("a request", true, func() { begin(3) })
	arrives("the request is complete", false, func() { f.WriteData(3, true, message) })
	arrives("a second stream", true, func() { begin(5); f.WriteData(5, false, message) })
	arrives("it is read", false, func() { c.stay(5); c.read(5, 10) })
	arrives("the first is canceled", false, func() { f.WriteRSTStream(1, http2.ErrCodeCancel) })
	arrives("the second ends", false, func() { f.WriteData(5, true, nil) })
	if c.held.Load() != 0 {
		t.Errorf("%d bytes are held; want none", c.held.Load())
	}
}

func TestAllowanceAdmitsARateAndABurst(t *testing.T) {
	for name, test := range map[string]struct {
		rate, burst float64
		admitted    int
	}{
		"a burst":  {1e-9, 100, 100},
		"the rate": {1e9, 1, 1000},
	} {
		var a allowance
		n := 0
		for ; n < 1000 && a.take(test.rate, test.burst); n++ {
		}
		if n != test.admitted {
			t.Errorf("%s: %d admitted; want %d", name, n, test.admitted)
		}
	}
}

func FuzzFrameScanner(f *testing.F) {
	f.Add([]byte("\x00\x00\x02\x00\x01\x80\x00\x00\x07abrest of a frame"), uint8(3))
	f.Fuzz(func(t *testing.T, b []byte, at uint8) {
		var whole, parts frameScanner
		all := scanAll(&whole, b)
		cut := min(int(at), len(b))
		split := append(scanAll(&parts, b[:cut]), scanAll(&parts, b[cut:])...)
		if len(all) != len(split) {
			t.Fatalf("%d frames at once, %d in parts", len(all), len(split))
		}
		for i := range all {
			if all[i] != split[i] {
				t.Errorf("%+v at once, %+v in parts", all[i], split[i])
			}
		}
	})
}

func scanAll(s *frameScanner, b []byte) []frame {
	var all []frame
	for {
		f, rest, ok := s.next(b)
		if !ok {
			return all
		}
		all, b = append(all, f), rest
	}
}

func (a *arrivals) len() int {
	n := len(a.older)
	if a.hasNewest {
		n++
	}
	return n
}

// Arrivals keep what a map keeps, in whatever order streams begin, grow and end.
func TestArrivalsKeepWhatAMapKeeps(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var got arrivals
	want := map[uint32]arrival{}
	for range 100_000 {
		stream := random.Uint32N(6)
		if random.IntN(3) == 0 {
			got.remove(stream)
			delete(want, stream)
		} else {
			of := arrival{memory: random.Int64N(100)}
			got.set(stream, of)
			want[stream] = of
		}
		for stream := range uint32(6) {
			of, isOpen := got.of(stream)
			if wanted, ok := want[stream]; of != wanted || isOpen != ok {
				t.Fatalf("stream %d: %+v, %t; want %+v, %t; in all %+v", stream, of, isOpen, wanted, ok, got)
			}
		}
		if got.len() != len(want) {
			t.Fatalf("%d streams; want %d", got.len(), len(want))
		}
	}
}
