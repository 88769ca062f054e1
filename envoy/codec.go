package envoy

import (
	"encoding"

	grpcencoding "google.golang.org/grpc/encoding"
	encodingproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// codec is gRPC's codec for protobuf, with support for messages in wire form: a request
// that is an encoding.BinaryUnmarshaler reads itself, and a reply that is []byte is sent
// as it is. The protobuf library uses reflection for every message, allocates each
// message and string separately, and rejects strings that are not UTF-8.
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
