package wire

import (
	"bytes"

	"google.golang.org/grpc/mem"
)

// NewReply returns a reply in wire form with a copy of its content, which the codec of a front
// sends as it is. One allocation has all that gRPC needs of a short reply; a []byte would need
// four.
func NewReply(content []byte) *mem.BufferSlice {
	if len(content) > len(shortReply{}.memory) {
		return new(reply).with(bytes.Clone(content))
	}
	r := new(shortReply)
	return r.with(append(r.memory[:0], content...))
}

// reply is the buffers of a reply, and their memory.
type reply struct {
	all     mem.BufferSlice
	buffers [1]mem.Buffer
	content mem.SliceBuffer
}

// shortReply is a reply with memory for its content.
type shortReply struct {
	reply
	memory [384 - 64]byte // what is left of a size that the runtime allocates
}

func (r *reply) with(content []byte) *mem.BufferSlice {
	r.content = content
	r.buffers[0] = &r.content
	r.all = r.buffers[:]
	return &r.all
}
