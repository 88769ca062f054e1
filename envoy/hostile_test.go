package envoy_test

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/koalagate/koalagate/envoy"
)

// liveHeap returns the bytes of the heap that are in use, with garbage.
func liveHeap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// exceeded collects the bounds that a server reports.
type exceeded struct {
	mu   sync.Mutex
	list []envoy.Bound
}

func (e *exceeded) add(b envoy.Bound, _ net.Addr) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, b)
}

func (e *exceeded) has(b envoy.Bound) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Contains(e.list, b)
}

// wantEnd fails the test unless the server ends the connection because of a bound,
// and still answers other callers.
func (h *hostile) wantEnd(t *testing.T, f *front, e *exceeded, b envoy.Bound) {
	t.Helper()
	select {
	case <-h.ended:
	case <-time.After(20 * time.Second):
		t.Error("the connection is still open")
	}
	if !e.has(b) {
		t.Errorf("exceeded %v; want %s", e.list, b)
	}
	if _, err := f.check(t); err != nil {
		t.Errorf("a call of another connection: %v", err)
	}
}

// Messages that are announced and never completed occupy little memory: gRPC alone
// would hold all of them, 4 GB on one connection.
func TestUnfinishedMessagesEndTheConnection(t *testing.T) {
	const streams, size = 1000, 4 << 20
	var e exceeded
	f := start(t, envoy.Options{MaxMessageBytes: size, Exceeded: e.add}, allow)
	if _, err := f.check(t); err != nil {
		t.Fatal(err)
	}
	h := attack(t, f.addr)
	part := announce(size)
	var most uint64
	for isOpen, sent := true, 0; isOpen && sent+len(part) < size && most < 300<<20; sent += len(part) {
		for stream := uint32(1); isOpen && stream < 2*streams; stream += 2 {
			isOpen = (sent > 0 || h.begin(stream)) && h.data(stream, part)
		}
		clear(part)
		most = max(most, liveHeap())
	}
	if most > 300<<20 {
		t.Errorf("%d MB of heap; want at most 300", most>>20)
	}
	h.wantEnd(t, f, &e, envoy.BoundUnfinished)
}

// Above the total, the connection that holds the most ends.
func TestUnfinishedMessagesOfManyConnectionsEndTheLargest(t *testing.T) {
	var e exceeded
	f := start(t, envoy.Options{MaxUnfinishedTotal: 100 << 10, Exceeded: e.add}, allow)
	hold := func(parts int) *hostile {
		h := attack(t, f.addr)
		h.begin(1)
		for part := announce(500 << 10); parts > 0; parts-- {
			h.data(1, part)
			clear(part) // the announcement is in the first part only
		}
		return h
	}
	small := hold(1)
	large := hold(6)
	large.wantEnd(t, f, &e, envoy.BoundUnfinishedTotal)
	select {
	case <-small.ended:
		t.Error("the connection that held less ended too")
	default:
	}
}

// A call whose request does not arrive ends alone.
func TestCallsWhoseRequestDoesNotArriveEnd(t *testing.T) {
	f := start(t, envoy.Options{CallTimeout: 50 * time.Millisecond}, allow)
	h := attack(t, f.addr)
	h.begin(1)
	select {
	case stream := <-h.refused:
		if stream != 1 {
			t.Errorf("stream %d ended", stream)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the call is still open after 10 s")
	}
	select {
	case <-h.ended:
		t.Error("the connection ended")
	default:
	}
}

// Reflection and health watches may stay open.
func TestStreamsOutliveTheCallTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startInMemory(t, envoy.Options{CallTimeout: time.Second}, allow)
		watch, err := healthv1.NewHealthClient(f.conn).Watch(t.Context(), &healthv1.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := watch.Recv(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		drained := make(chan error, 1)
		go func() { drained <- f.Drain(deadline(t)) }()
		if got, err := watch.Recv(); err != nil || got.Status != healthv1.HealthCheckResponse_NOT_SERVING {
			t.Errorf("after the timeout: %v, %v; want NOT_SERVING", got, err)
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
	})
}

func TestFloodsEndTheConnection(t *testing.T) {
	for name, test := range map[string]struct {
		bound envoy.Bound
		send  func(h *hostile, stream uint32) bool
	}{
		"canceled calls": {envoy.BoundResets, func(h *hostile, stream uint32) bool {
			return h.begin(stream) && h.send(func() error { return h.framer.WriteRSTStream(stream, http2.ErrCodeCancel) })
		}},
		// The server resets a stream for a window update of 0.
		"provoked resets": {envoy.BoundResets, func(h *hostile, stream uint32) bool {
			return h.begin(stream) && h.send(func() error {
				return h.framer.WriteRawFrame(http2.FrameWindowUpdate, 0, stream, make([]byte, 4))
			})
		}},
		"settings": {envoy.BoundSettings, func(h *hostile, stream uint32) bool {
			return h.send(func() error {
				return h.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 65535 + stream%4})
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var e exceeded
			f := start(t, envoy.Options{MaxResets: 500, Exceeded: e.add}, allow)
			h := attack(t, f.addr)
			for stream := uint32(1); stream < 40_000 && test.send(h, stream); stream += 2 {
			}
			h.wantEnd(t, f, &e, test.bound)
		})
	}
}

// Bounds that gRPC itself enforces are reported.
func TestBoundsOfTheLibraryAreReported(t *testing.T) {
	for name, test := range map[string]struct {
		bound   envoy.Bound
		options envoy.Options
		attack  func(h *hostile)
	}{
		"too many concurrent calls": {envoy.BoundStreams, envoy.Options{MaxStreams: 2}, func(h *hostile) {
			for stream := uint32(1); stream < 9; stream += 2 {
				h.begin(stream)
			}
		}},
		"many header fields": {envoy.BoundHeaderSize, envoy.Options{MaxHeaderBytes: 4096}, func(h *hostile) {
			block := callHeader(slices.Repeat([]field{{"x-a", "b"}}, 200)...)
			h.send(func() error {
				return h.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true})
			})
		}},
		"a long header field": {envoy.BoundHeaderSize, envoy.Options{MaxHeaderBytes: 4096}, func(h *hostile) {
			block := callHeader(field{"x-long", strings.Repeat("x", 5000)})
			h.send(func() error {
				return h.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true})
			})
		}},
		"a header without end": {envoy.BoundHeaderSize, envoy.Options{MaxHeaderBytes: 4096}, func(h *hostile) {
			h.send(func() error { // at once: another frame within the header ends the connection
				err := h.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: callHeader()})
				for part := make([]byte, 16<<10); err == nil; {
					err = h.framer.WriteContinuation(1, false, part)
				}
				return err
			})
		}},
		"pings": {envoy.BoundPings, envoy.Options{KeepaliveMinTime: time.Minute}, func(h *hostile) {
			for range 5 {
				h.send(func() error { return h.framer.WritePing(false, [8]byte{}) })
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var e exceeded
			test.options.Exceeded = e.add
			f := start(t, test.options, allow)
			test.attack(attack(t, f.addr))
			for wait := time.Now().Add(10 * time.Second); !e.has(test.bound) && time.Now().Before(wait); {
				time.Sleep(time.Millisecond)
			}
			if !e.has(test.bound) {
				t.Errorf("exceeded %v; want %s", e.list, test.bound)
			}
			if _, err := f.check(t); err != nil {
				t.Errorf("a call of another connection: %v", err)
			}
		})
	}
}

// A connection without the frames of a handshake ends.
func TestSlowHandshakesEnd(t *testing.T) {
	var e exceeded
	f := start(t, envoy.Options{HandshakeTimeout: 50 * time.Millisecond, Exceeded: e.add}, allow)
	for _, sent := range []string{"", "PRI * HTTP/2.0\r\n", http2.ClientPreface} {
		conn, err := net.Dial("tcp", f.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, sent); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after %q the connection is open", sent)
		}
	}
	if e.mu.Lock(); len(e.list) != 3 || !slices.Equal(slices.Compact(e.list), []envoy.Bound{envoy.BoundHandshake}) {
		t.Errorf("exceeded %v; want three handshakes", e.list)
	}
	e.mu.Unlock()
}

// A caller that cancels some calls keeps its connection.
func TestCanceledCallsKeepTheConnection(t *testing.T) {
	var e exceeded
	f := start(t, envoy.Options{Exceeded: e.add}, allow)
	h := attack(t, f.addr)
	for stream := uint32(1); stream < 2*5000; stream += 2 {
		h.begin(stream)
		h.send(func() error { return h.framer.WriteRSTStream(stream, http2.ErrCodeCancel) })
	}
	if _, err := f.check(t); err != nil {
		t.Error(err)
	}
	select {
	case <-h.ended:
		t.Errorf("the connection ended: %v", e.list)
	default:
	}
}
