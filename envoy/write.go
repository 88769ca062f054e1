package envoy

import (
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// writer appends a message's fields. What it cannot write it leaves to the
// library: then it has failed.
type writer struct {
	bytes  []byte
	failed bool
}

// release keeps w for another message, unless this one was uncommonly large.
func (w *writer) release() {
	const common = 64 << 10
	if cap(w.bytes) <= common {
		w.bytes, w.failed = w.bytes[:0], false
		writers.Put(w)
	}
}

// open begins a field that is a message, and returns where the message begins.
func (w *writer) open(number protowire.Number) int {
	w.bytes = append(protowire.AppendTag(w.bytes, number, protowire.BytesType), 0) // one byte for the length, as a rule
	return len(w.bytes)
}

// close ends the field that was opened there.
func (w *writer) close(from int) {
	n := len(w.bytes) - from
	if n < 1<<7 {
		w.bytes[from-1] = byte(n)
		return
	}
	var room [10]byte
	length := protowire.AppendVarint(room[:0], uint64(n))
	w.bytes = append(w.bytes, room[:len(length)-1]...)
	copy(w.bytes[from+len(length)-1:], w.bytes[from:from+n])
	copy(w.bytes[from-1:], length)
}

// known fails at fields that this program does not know.
func (w *writer) known(m proto.Message) {
	w.failed = w.failed || len(m.ProtoReflect().GetUnknown()) > 0
}

// The fields of a Struct and what is in it: google/protobuf/struct.proto.
const (
	structFields = 1
	entryKey     = 1
	entryValue   = 2
	valueNumber  = 2
	valueString  = 3
	valueBool    = 4
)

// metadata writes a Struct of numbers, texts and truths.
func (w *writer) metadata(s *structpb.Struct) {
	w.known(s)
	for key, value := range s.GetFields() {
		entry := w.open(structFields)
		w.failed = w.failed || !utf8.ValidString(key)
		w.bytes = protowire.AppendString(protowire.AppendTag(w.bytes, entryKey, protowire.BytesType), key)
		from := w.open(entryValue)
		w.value(value)
		w.close(from)
		w.close(entry)
	}
}

func (w *writer) value(v *structpb.Value) {
	switch kind := v.GetKind().(type) {
	case *structpb.Value_NumberValue:
		w.bytes = protowire.AppendTag(w.bytes, valueNumber, protowire.Fixed64Type)
		w.bytes = protowire.AppendFixed64(w.bytes, math.Float64bits(kind.NumberValue))
	case *structpb.Value_StringValue:
		w.failed = w.failed || !utf8.ValidString(kind.StringValue)
		w.bytes = protowire.AppendString(protowire.AppendTag(w.bytes, valueString, protowire.BytesType), kind.StringValue)
	case *structpb.Value_BoolValue:
		w.bytes = protowire.AppendTag(w.bytes, valueBool, protowire.VarintType)
		w.bytes = protowire.AppendVarint(w.bytes, protowire.EncodeBool(kind.BoolValue))
	default:
		w.failed = true
	}
}
