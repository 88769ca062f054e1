// Package wire reads and appends protobuf messages in wire form, and describes the gRPC
// services that work on them.
//
// The generated messages of one call are dozens of allocations, which the protobuf
// library fills and walks by reflection. The library also rejects strings that are not
// UTF-8, which Envoy accepts from clients and forwards.
package wire

import (
	"errors"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// appendHead appends the tag and the length of a field whose content has n bytes.
func appendHead(b []byte, field protowire.Number, n int) []byte {
	if field < 1<<4 && n < 1<<7 { // as nearly all are: one byte each
		return append(b, byte(field)<<3|byte(Bytes), byte(n))
	}
	return appendLongHead(b, field, n)
}

func appendLongHead(b []byte, field protowire.Number, n int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.BytesType), uint64(n))
}

// AppendNumber appends a varint field unless v is 0, the default in proto3.
func AppendNumber(b []byte, field protowire.Number, v uint64) []byte {
	switch {
	case v == 0:
		return b
	case field < 1<<4 && v < 1<<7:
		return append(b, byte(field)<<3|byte(Varint), byte(v))
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

// AppendText appends a string field unless s is empty. s must be UTF-8; otherwise no
// caller could parse the message.
func AppendText(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return appendString(b, field, s)
}

func appendString(b []byte, field protowire.Number, s string) []byte {
	return append(appendHead(b, field, len(s)), s...)
}

// AppendBytes appends a bytes field, or a string field, even if v is empty.
func AppendBytes(b []byte, field protowire.Number, v []byte) []byte {
	return append(appendHead(b, field, len(v)), v...)
}

// Begin begins a field that is a message. Everything appended until End, which takes the
// returned position, belongs to the message. The field is present even if it is empty.
func Begin(b []byte, field protowire.Number) (message []byte, from int) {
	b = appendHead(b, field, 0) // one byte for the length, which usually suffices
	return b, len(b)
}

// End ends the message that begins at the position from Begin.
func End(b []byte, from int) []byte {
	if len(b)-from >= 1<<7 {
		return endLong(b, from)
	}
	b[from-1] = byte(len(b) - from)
	return b
}

// endLong ends a message whose length has more than one byte.
func endLong(b []byte, from int) []byte {
	n := len(b) - from
	var buffer [10]byte
	length := protowire.AppendVarint(buffer[:0], uint64(n))
	b = append(b, length[1:]...) // extends b by the bytes that the length still needs
	copy(b[from+len(length)-1:], b[from:from+n])
	copy(b[from-1:], length)
	return b
}

// The fields of a Struct and of the messages in it: google/protobuf/struct.proto.
const (
	structFields = 1
	factName     = 1
	factValue    = 2
	valueNumber  = 2
	valueString  = 3
	valueBool    = 4
	valueList    = 6
	listValues   = 1
)

// AppendNumberFact appends an entry with a number to the map of a Struct.
func AppendNumberFact(b []byte, name string, n int64) []byte {
	return appendNumber(beginFact(b, name, numberSize(n)), n)
}

// AppendTextFact appends an entry with a string, which must be UTF-8, to the map of a
// Struct.
func AppendTextFact(b []byte, name, s string) []byte {
	return appendText(beginFact(b, name, textSize(s)), s)
}

// AppendTrueFact appends an entry with the value true to the map of a Struct.
func AppendTrueFact(b []byte, name string) []byte {
	return append(beginFact(b, name, 2), valueBool<<3|byte(Varint), 1)
}

// AppendNumbersFact appends an entry with a list of numbers to the map of a Struct.
func AppendNumbersFact(b []byte, name string, numbers []int64) []byte {
	return appendListFact(b, name, numbers, numberSize, appendNumber)
}

// AppendTextsFact appends an entry with a list of texts, which must be UTF-8, to the map of
// a Struct.
func AppendTextsFact(b []byte, name string, texts []string) []byte {
	return appendListFact(b, name, texts, textSize, appendText)
}

func appendListFact[T any](b []byte, name string, elements []T, size func(T) int, appendValue func([]byte, T) []byte) []byte {
	n := 0
	for _, e := range elements {
		n += sizeOf(size(e))
	}
	b = appendHead(beginFact(b, name, sizeOf(n)), valueList, n)
	for _, e := range elements {
		b = appendValue(appendHead(b, listValues, size(e)), e)
	}
	return b
}

// beginFact begins an entry of the map, whose value follows and has n bytes.
func beginFact(b []byte, name string, n int) []byte {
	b = appendHead(b, structFields, sizeOf(len(name))+sizeOf(n))
	return appendHead(appendString(b, factName, name), factValue, n)
}

// sizeOf returns the size of a field of a Struct whose content has n bytes, with its tag of
// one byte and its length.
func sizeOf(n int) int { return 1 + protowire.SizeBytes(n) }

func numberSize(int64) int { return 1 + protowire.SizeFixed64() }

func appendNumber(b []byte, n int64) []byte {
	return protowire.AppendFixed64(append(b, valueNumber<<3|byte(Fixed64)), math.Float64bits(float64(n)))
}

func textSize(s string) int { return sizeOf(len(s)) }

func appendText(b []byte, s string) []byte { return appendString(b, valueString, s) }

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
	// Most fields are texts and messages whose tag and length have one byte each.
	if len(rest) > 1 && rest[0] >= 1<<3 && rest[0]&0x87 == byte(Bytes) && int(rest[1]) <= min(0x7F, len(rest)-2) {
		f.Tag, f.from = uint64(rest[0]), f.at+2
		f.at = f.from + int(rest[1])
		return true
	}
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
