package envoy

import (
	"encoding"
	"errors"

	grpcencoding "google.golang.org/grpc/encoding"
	encodingproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/koalagate/koalagate/internal/wire"
)

// codec is gRPC's codec for protobuf, with support for messages in wire form: a request
// that is an encoding.BinaryUnmarshaler reads itself, and what wire.NewReply returned is sent
// as it is. The protobuf library uses reflection for every message, allocates each
// message and string separately, and rejects strings that are not UTF-8.
type codec struct {
	grpcencoding.CodecV2
	maxBytes int // of a message that is not one of a wire.Streams
}

var errTooLarge = errors.New("the message is larger than the maximum")

func newCodec(maxBytes int) codec {
	return codec{grpcencoding.GetCodecV2(encodingproto.Name), maxBytes}
}

// Unmarshal reads a message.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if _, ok := v.(*wire.Message); !ok && data.Len() > c.maxBytes {
		in, ok := v.(*wire.Incoming)
		if !ok {
			return errTooLarge
		}
		in.Refuse()
		return nil
	}
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
	if reply, ok := v.(*mem.BufferSlice); ok {
		return *reply, nil
	}
	return c.CodecV2.Marshal(v)
}
