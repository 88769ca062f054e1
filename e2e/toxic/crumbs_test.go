package toxic

import (
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// crumbs passes an answer on byte by byte. The proxy's own toxic for this, slicer,
// blocks forever when the connection was closed meanwhile, and so does the removal
// of the toxic.
type crumbs struct{}

const (
	// crumbPause is the time between two bytes.
	crumbPause = 20 * time.Millisecond
	// crumbTimeout is the maximum time for the connection to accept a byte. A
	// closed connection accepts none.
	crumbTimeout = time.Second
)

// Pipe processes the answers of a connection.
func (*crumbs) Pipe(stub *toxics.ToxicStub) {
	for open := true; ; {
		select {
		case <-stub.Interrupt:
			return
		case c := <-stub.Input:
			if c == nil {
				stub.Close()
				return
			}
			var interrupted bool
			if open {
				open, interrupted = crumble(stub, c)
			}
			if interrupted {
				return
			}
		}
	}
}

// crumble passes c on byte by byte, and its rest at once when the toxic is removed.
// It reports whether the connection is still open, and whether the toxic was
// removed.
func crumble(stub *toxics.ToxicStub, c *stream.StreamChunk) (open, interrupted bool) {
	piece := func(data []byte) *stream.StreamChunk {
		return &stream.StreamChunk{Data: data, Timestamp: c.Timestamp}
	}
	for i := range c.Data {
		select {
		case stub.Output <- piece(c.Data[i : i+1]):
		case <-stub.Interrupt:
			return stub.WriteOutput(piece(c.Data[i:]), crumbTimeout) == nil, true
		case <-time.After(crumbTimeout):
			return false, false
		}
		select {
		case <-time.After(crumbPause):
		case <-stub.Interrupt:
			return stub.WriteOutput(piece(c.Data[i+1:]), crumbTimeout) == nil, true
		}
	}
	return true, false
}
