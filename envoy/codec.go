package envoy

import (
	"encoding"

	grpcencoding "google.golang.org/grpc/encoding"
	encodingproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// codec is grpc's own for protobuf, but for doors that know their messages in wire
// form: requests that are encoding.BinaryUnmarshaler read themselves, and replies
// that are []byte are sent as they are. The library goes through all messages by
// reflection, gives each message and text memory of its own, and refuses texts that
// are no UTF-8.
type codec struct{ grpcencoding.CodecV2 }

func newCodec() codec { return codec{grpcencoding.GetCodecV2(encodingproto.Name)} }

// Unmarshal reads a message.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(encoding.BinaryUnmarshaler)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	return m.UnmarshalBinary(whole.ReadOnlyData())
}

// Marshal writes a message.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.([]byte); ok {
		return mem.BufferSlice{mem.SliceBuffer(m)}, nil
	}
	return c.CodecV2.Marshal(v)
}
