// Package wire reads and appends messages of protobuf as they travel. With the
// generated messages a call has dozens, each in memory of its own, filled and gone
// through by reflection, to be dropped when it is answered; and the library does
// not read texts that are no UTF-8, which Envoy takes from clients as they are.
package wire

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
)

// The kinds of fields that doors read. A field's number times eight and its kind
// are its tag: `4<<3 | wire.Bytes`.
const (
	Varint  = uint64(protowire.VarintType)
	Fixed64 = uint64(protowire.Fixed64Type)
	Bytes   = uint64(protowire.BytesType) // a text, bytes or a message
)

// Fields goes over the fields of a message, in the order in which they came. Of
// a field that comes twice the last counts, and messages are merged, which is for
// the reader to do; fields that it does not know it passes over.
type Fields struct {
	// The field that Next came to.
	Tag    uint64
	Number uint64 // of a Varint or Fixed64

	// Err is why the walk ended early, nil at the end of the message. Readers put
	// the error of a message within in it, which ends theirs as well.
	Err error

	whole          []byte
	from, at, last int // the content is between from and at, the message ends at last
}

// Read begins the walk over a message.
func Read(message []byte) Fields { return Fields{whole: message, last: len(message)} }

// Inner begins the walk over the message that the field is.
func (f *Fields) Inner() Fields { return Fields{whole: f.whole, at: f.from, last: f.at} }

// Content is the content of a Bytes field, which is part of the message.
func (f *Fields) Content() []byte { return f.whole[f.from:f.at:f.at] }

// Text is the same out of text, a copy of the whole message: all texts of a call
// are parts of one.
func (f *Fields) Text(text string) string { return text[f.from:f.at] }

// Pair reads a message of two texts, numbered 1 and 2, as the entries of maps and
// descriptors are.
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

// Next goes to the next field, and tells whether there is one.
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

var errNumber = errors.New("a field has a number that is none")

// fail ends the walk.
func (f *Fields) fail(err error) bool {
	f.Err = err
	return false
}
