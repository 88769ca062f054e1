package envoy

import (
	"encoding"
	"encoding/binary"
	"sync"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	grpcencoding "google.golang.org/grpc/encoding"
	encodingproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// codec is grpc's own for protobuf, but for texts that are no UTF-8 (anybytes.go),
// for the metadata that each reply to a check has, and for doors that know their
// messages in wire form: requests that are encoding.BinaryUnmarshaler read
// themselves, and replies that are []byte are sent as they are. The library goes
// through all messages by reflection, through the map of a Struct twice, and gives
// each message and text memory of its own.
type codec struct{ grpcencoding.CodecV2 }

func newCodec() codec { return codec{grpcencoding.GetCodecV2(encodingproto.Name)} }

// metadataOfCheck is the number of the field dynamic_metadata.
const metadataOfCheck = 4

// Unmarshal reads a message.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(encoding.BinaryUnmarshaler); ok {
		whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
		defer whole.Free()
		return m.UnmarshalBinary(whole.ReadOnlyData())
	}
	return c.unmarshal(data, v)
}

// writers are kept for the next message: what one writes into would be allocated
// for each.
var writers = sync.Pool{New: func() any { return &writer{bytes: make([]byte, 0, 1024)} }}

// Marshal writes a message. What it cannot do faster, the library does.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case []byte:
		return mem.BufferSlice{mem.SliceBuffer(m)}, nil
	case *authv3.CheckResponse:
		w := writers.Get().(*writer)
		defer w.release()
		if w.known(m); m.GetDynamicMetadata() == nil || w.failed {
			break
		}
		if w.metadata(m.GetDynamicMetadata()); w.failed {
			break
		}
		return marshalCheck(m, w.bytes)
	}
	return c.CodecV2.Marshal(v)
}

// marshalCheck writes an answer of ext_authz, whose metadata is written already.
func marshalCheck(m *authv3.CheckResponse, metadata []byte) (mem.BufferSlice, error) {
	// The metadata may be another call's as well, and so is not taken out.
	rest := &authv3.CheckResponse{Status: m.GetStatus(), HttpResponse: m.GetHttpResponse()}
	whole := make([]byte, 0, proto.Size(rest)+len(metadata)+2*binary.MaxVarintLen32)
	whole, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(whole, rest)
	if err != nil {
		return nil, err
	}
	whole = protowire.AppendTag(whole, metadataOfCheck, protowire.BytesType)
	whole = protowire.AppendBytes(whole, metadata)
	return mem.BufferSlice{mem.SliceBuffer(whole)}, nil
}
