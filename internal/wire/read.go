// Package wire reads and appends protobuf messages in wire form, and describes the gRPC
// services that work on them.
//
// The generated messages of one call are dozens of allocations, which the protobuf
// library fills and walks by reflection. The library also rejects strings that are not
// UTF-8, which Envoy accepts from clients and forwards.
package wire

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
)

// The wire types of fields. A tag is the field's number and its wire type:
// `4<<3 | wire.Bytes`.
const (
	Varint  = uint64(protowire.VarintType)
	Fixed64 = uint64(protowire.Fixed64Type)
	Bytes   = uint64(protowire.BytesType) // a string, bytes or a message
)

// Fields iterates over the fields of a message in their order. The caller skips unknown
// fields, and implements the rules of protobuf for repeated occurrences: the last value
// of a field counts, and messages are merged.
type Fields struct {
	// The current field, set by Next.
	Tag    uint64
	Number uint64 // of a Varint or Fixed64

	// Err is the error that ended the iteration early, nil at the end of the message.
	// Callers set it to the error of an inner message, which ends the outer one too.
	Err error

	whole          []byte
	from, at, last int // the content is whole[from:at], the message ends at last
}

// Read returns the fields of a message.
func Read(message []byte) Fields { return Fields{whole: message, last: len(message)} }

// Inner returns the fields of the message in the current field.
func (f *Fields) Inner() Fields { return Fields{whole: f.whole, at: f.from, last: f.at} }

// Content returns the content of a Bytes field as a part of the message.
func (f *Fields) Content() []byte { return f.whole[f.from:f.at:f.at] }

// Text returns the content of a Bytes field as a part of text, which is a copy of the
// whole message, so that all strings of a call need one allocation.
func (f *Fields) Text(text string) string { return text[f.from:f.at] }

// Pair reads a message of two strings with the numbers 1 and 2, such as an entry of a
// map or of a descriptor.
func (f Fields) Pair(text string) (key, value string, err error) {
	const tagKey, tagValue = 1<<3 | Bytes, 2<<3 | Bytes
	for f.Next() {
		switch f.Tag {
		case tagKey:
			key = f.Text(text)
		case tagValue:
			value = f.Text(text)
		}
	}
	return key, value, f.Err
}

// Next advances to the next field, and reports whether there is one.
func (f *Fields) Next() bool {
	if f.Err != nil || f.at == f.last {
		return false
	}
	rest := f.whole[f.at:f.last]
	tag, n := protowire.ConsumeVarint(rest)
	switch {
	case n < 0:
		return f.fail(protowire.ParseError(n))
	case tag>>3 < uint64(protowire.MinValidNumber) || tag>>3 > uint64(protowire.MaxValidNumber):
		return f.fail(errNumber)
	}
	rest = rest[n:]
	var size int
	switch f.Tag, f.from = tag, f.at+n; tag & 7 {
	case Varint:
		f.Number, size = protowire.ConsumeVarint(rest)
	case Fixed64:
		f.Number, size = protowire.ConsumeFixed64(rest)
	case Bytes:
		var content []byte
		content, size = protowire.ConsumeBytes(rest)
		f.from += size - len(content)
	default:
		size = protowire.ConsumeFieldValue(protowire.Number(tag>>3), protowire.Type(tag&7), rest)
	}
	if size < 0 {
		return f.fail(protowire.ParseError(size))
	}
	f.at += n + size
	return true
}

var errNumber = errors.New("invalid field number")

// fail ends the iteration.
func (f *Fields) fail(err error) bool {
	f.Err = err
	return false
}
