package wire

import (
	"bytes"

	"google.golang.org/grpc/mem"
)

// Reply is a reply in wire form, which the codec of a front sends as it is. One allocation has
// all that gRPC needs of a short reply; a []byte would need four.
type Reply struct {
	content mem.SliceBuffer
	buffers [1]mem.Buffer
}

// shortReply is a Reply with memory for its content.
type shortReply struct {
	Reply
	memory [384 - 40]byte // what is left of a size that the runtime allocates
}

// NewReply returns a reply with a copy of its content.
func NewReply(content []byte) (r *Reply) {
	if len(content) <= len(shortReply{}.memory) {
		short := new(shortReply)
		r = &short.Reply
		r.content = append(short.memory[:0], content...)
	} else {
		r = &Reply{content: bytes.Clone(content)}
	}
	r.buffers[0] = &r.content
	return r
}

// Content returns the content.
func (r *Reply) Content() []byte { return r.content }

// Buffers returns the content as gRPC sends it.
func (r *Reply) Buffers() mem.BufferSlice { return r.buffers[:] }
