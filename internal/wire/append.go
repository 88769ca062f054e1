package wire

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// AppendNumber appends a varint field unless v is 0, the default in proto3.
func AppendNumber(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

// AppendText appends a string field unless s is empty. s must be UTF-8; otherwise no
// caller could parse the message.
func AppendText(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

// AppendBytes appends a bytes field, or a string field, even if v is empty.
func AppendBytes(b []byte, field protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}

// Begin begins a field that is a message. Everything appended until End, which takes the
// returned position, belongs to the message. The field is present even if it is empty.
func Begin(b []byte, field protowire.Number) (message []byte, from int) {
	b = append(protowire.AppendTag(b, field, protowire.BytesType), 0) // one byte for the length, which usually suffices
	return b, len(b)
}

// End ends the message that begins at the position from Begin.
func End(b []byte, from int) []byte {
	n := len(b) - from
	if n < 1<<7 {
		b[from-1] = byte(n)
		return b
	}
	var buffer [10]byte
	length := protowire.AppendVarint(buffer[:0], uint64(n))
	b = append(b, length[1:]...) // extends b by the bytes that the length still needs
	copy(b[from+len(length)-1:], b[from:from+n])
	copy(b[from-1:], length)
	return b
}
