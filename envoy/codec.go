package envoy

import (
	"encoding/binary"
	"math"
	"unicode/utf8"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/encoding"
	encodingproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// codec is grpc's own for protobuf, but for texts that are no UTF-8 (anybytes.go)
// and for the metadata of our two answers: a Struct is a map, which the library
// goes through twice by reflection, and of all that a decision in process costs
// that was a tenth.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(encodingproto.Name)} }

// Marshal writes a message. What it cannot do faster, the library does.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	var rest proto.Message
	var metadata *structpb.Struct
	var field protowire.Number
	switch m := v.(type) {
	case *rlsv3.RateLimitResponse:
		rest, metadata, field = restOfRateLimit(m), m.GetDynamicMetadata(), metadataOfRateLimit
	case *authv3.CheckResponse:
		rest, metadata, field = restOfCheck(m), m.GetDynamicMetadata(), metadataOfCheck
	}
	var room [512]byte
	told, ok := appendStruct(room[:0], metadata)
	if !ok || rest == nil {
		return c.CodecV2.Marshal(v)
	}
	size := proto.Size(rest)
	whole := make([]byte, 0, size+len(told)+2*binary.MaxVarintLen32)
	whole, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(whole, rest)
	if err != nil {
		return nil, err
	}
	whole = protowire.AppendTag(whole, field, protowire.BytesType)
	whole = protowire.AppendBytes(whole, told)
	return mem.BufferSlice{mem.SliceBuffer(whole)}, nil
}

// The numbers of the field dynamic_metadata.
const (
	metadataOfRateLimit = 6
	metadataOfCheck     = 4
)

// restOfRateLimit is the answer without its metadata, which may be another
// call's as well and so is not changed; nil where something would be lost.
func restOfRateLimit(m *rlsv3.RateLimitResponse) proto.Message {
	if len(m.ProtoReflect().GetUnknown()) > 0 {
		return nil
	}
	return &rlsv3.RateLimitResponse{
		OverallCode: m.GetOverallCode(), Statuses: m.GetStatuses(), ResponseHeadersToAdd: m.GetResponseHeadersToAdd(),
		RequestHeadersToAdd: m.GetRequestHeadersToAdd(), RawBody: m.GetRawBody(), Quota: m.GetQuota(),
	}
}

// restOfCheck is the same of the other answer.
func restOfCheck(m *authv3.CheckResponse) proto.Message {
	if len(m.ProtoReflect().GetUnknown()) > 0 {
		return nil
	}
	return &authv3.CheckResponse{Status: m.GetStatus(), HttpResponse: m.GetHttpResponse()}
}

// The fields of a Struct, of its entries and of a Value: google/protobuf/struct.proto.
const (
	structFields = 1
	entryKey     = 1
	entryValue   = 2
	valueNumber  = 2
	valueString  = 3
	valueBool    = 4
)

// appendStruct appends a Struct of numbers, texts and truths. It gives up, and
// says so, where there is none, and at all else.
func appendStruct(b []byte, s *structpb.Struct) ([]byte, bool) {
	if s == nil || len(s.ProtoReflect().GetUnknown()) > 0 {
		return nil, false
	}
	for key, value := range s.GetFields() {
		n, ok := sizeOfValue(value)
		if !ok || !utf8.ValidString(key) {
			return nil, false
		}
		entry := 1 + protowire.SizeBytes(len(key)) + 1 + protowire.SizeBytes(n)
		b = protowire.AppendTag(b, structFields, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(entry))
		b = protowire.AppendTag(b, entryKey, protowire.BytesType)
		b = protowire.AppendString(b, key)
		b = protowire.AppendTag(b, entryValue, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(n))
		b = appendValue(b, value)
	}
	return b, true
}

// sizeOfValue is how many bytes appendValue appends, if it can.
func sizeOfValue(v *structpb.Value) (int, bool) {
	switch kind := v.GetKind().(type) {
	case *structpb.Value_NumberValue:
		return 1 + protowire.SizeFixed64(), true
	case *structpb.Value_StringValue:
		return 1 + protowire.SizeBytes(len(kind.StringValue)), utf8.ValidString(kind.StringValue)
	case *structpb.Value_BoolValue:
		return 1 + 1, true
	}
	return 0, false
}

func appendValue(b []byte, v *structpb.Value) []byte {
	switch kind := v.GetKind().(type) {
	case *structpb.Value_NumberValue:
		b = protowire.AppendTag(b, valueNumber, protowire.Fixed64Type)
		return protowire.AppendFixed64(b, math.Float64bits(kind.NumberValue))
	case *structpb.Value_StringValue:
		b = protowire.AppendTag(b, valueString, protowire.BytesType)
		return protowire.AppendString(b, kind.StringValue)
	case *structpb.Value_BoolValue:
		b = protowire.AppendTag(b, valueBool, protowire.VarintType)
		return protowire.AppendVarint(b, protowire.EncodeBool(kind.BoolValue))
	}
	return b
}
