package envoy_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// hostile is a client that speaks HTTP/2 frame by frame. It obeys flow control and
// nothing else.
type hostile struct {
	net.Conn
	framer  *http2.Framer
	write   sync.Mutex
	ended   chan struct{} // closed when the server ends the connection
	refused chan uint32   // streams that the server ended

	mu      sync.Mutex
	changed sync.Cond
	whole   int64            // window of the connection
	initial int64            // window of a stream at its start
	windows map[uint32]int64 // windows of streams, relative to initial
}

// attack opens a hostile connection.
func attack(t *testing.T, addr string) *hostile {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	h := &hostile{
		Conn: conn, framer: http2.NewFramer(conn, conn), ended: make(chan struct{}), refused: make(chan uint32, 1),
		whole: 65535, initial: 65535, windows: make(map[uint32]int64),
	}
	h.changed.L = &h.mu
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	if err := h.framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	go h.read()
	t.Cleanup(func() { conn.Close(); <-h.ended })
	return h
}

// read answers the frames of the server until the connection ends.
func (h *hostile) read() {
	defer h.changed.Broadcast()
	defer close(h.ended)
	for {
		frame, err := h.framer.ReadFrame()
		if err != nil {
			return
		}
		h.mu.Lock()
		switch f := frame.(type) {
		case *http2.WindowUpdateFrame:
			if f.StreamID == 0 {
				h.whole += int64(f.Increment)
			} else {
				h.windows[f.StreamID] += int64(f.Increment)
			}
		case *http2.SettingsFrame:
			if value, ok := f.Value(http2.SettingInitialWindowSize); ok {
				h.initial = int64(value)
			}
		}
		h.mu.Unlock()
		h.changed.Broadcast()
		switch f := frame.(type) {
		case *http2.HeadersFrame:
			if f.StreamEnded() {
				select {
				case h.refused <- f.StreamID:
				default: // one is enough
				}
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				h.send(func() error { return h.framer.WritePing(true, f.Data) })
			}
		case *http2.SettingsFrame:
			if !f.IsAck() {
				h.send(h.framer.WriteSettingsAck)
			}
		}
	}
}

// send writes a frame. It reports whether the connection is still open.
func (h *hostile) send(frame func() error) bool {
	h.write.Lock()
	defer h.write.Unlock()
	return frame() == nil
}

// begin sends the header of a call.
func (h *hostile) begin(stream uint32) bool {
	return h.send(func() error {
		return h.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: callHeader(), EndHeaders: true})
	})
}

// field is the name and the value of a header field.
type field [2]string

// callHeader returns the header of a call of Check, with more fields.
func callHeader(more ...field) []byte {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range append([]field{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", "/" + serviceName + "/Check"},
		{":authority", "koalagate"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	}, more...) {
		_ = encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // a buffer does not fail
	}
	return block.Bytes()
}

// data sends n bytes of a request, once the windows admit them.
func (h *hostile) data(stream uint32, content []byte) bool {
	h.mu.Lock()
	for h.whole < int64(len(content)) || h.initial+h.windows[stream] < int64(len(content)) {
		select {
		case <-h.ended:
			h.mu.Unlock()
			return false
		default:
			h.changed.Wait()
		}
	}
	h.whole -= int64(len(content))
	h.windows[stream] -= int64(len(content))
	h.mu.Unlock()
	return h.send(func() error { return h.framer.WriteData(stream, false, content) })
}

// announce returns the first bytes of a message of this size, 16 kB with its prefix.
func announce(size int) []byte {
	content := make([]byte, 16<<10)
	binary.BigEndian.PutUint32(content[1:], uint32(size))
	return content
}
