package toxic

import (
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// crumbs lets an answer through a byte at a time. The proxy has such a toxic,
// slicer, but that one waits for ever to hand on what belongs to a connection
// that was closed meanwhile, and with it whoever removes the toxic.
type crumbs struct{}

const (
	// crumbPause is the time between two bytes.
	crumbPause = 20 * time.Millisecond
	// crumbPatience is how long the connection may take to take a byte: it takes
	// none any more when it is closed.
	crumbPatience = time.Second
)

// Pipe is what happens to the answers of a connection.
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

// crumble hands c on in crumbs, and what is left of it in one piece when the
// toxic is removed. It tells whether the connection still takes anything.
func crumble(stub *toxics.ToxicStub, c *stream.StreamChunk) (open, interrupted bool) {
	piece := func(data []byte) *stream.StreamChunk {
		return &stream.StreamChunk{Data: data, Timestamp: c.Timestamp}
	}
	for i := range c.Data {
		select {
		case stub.Output <- piece(c.Data[i : i+1]):
		case <-stub.Interrupt:
			return stub.WriteOutput(piece(c.Data[i:]), crumbPatience) == nil, true
		case <-time.After(crumbPatience):
			return false, false
		}
		select {
		case <-time.After(crumbPause):
		case <-stub.Interrupt:
			return stub.WriteOutput(piece(c.Data[i+1:]), crumbPatience) == nil, true
		}
	}
	return true, false
}
