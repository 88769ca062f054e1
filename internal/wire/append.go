package wire

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// AppendNumber appends a number unless it is 0, which is not sent.
func AppendNumber(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

// AppendText appends a text unless it is empty. It must be UTF-8: no caller
// could read the message.
func AppendText(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

// AppendBytes appends bytes, also none: a text of that form must not be empty.
func AppendBytes(b []byte, field protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}

// Begin begins a field that is a message, to which all belongs that is appended
// until End is told where it begins. It is there even if it is empty.
func Begin(b []byte, field protowire.Number) (message []byte, from int) {
	b = append(protowire.AppendTag(b, field, protowire.BytesType), 0) // one byte for the length, as a rule
	return b, len(b)
}

// End ends the message that begins there.
func End(b []byte, from int) []byte {
	n := len(b) - from
	if n < 1<<7 {
		b[from-1] = byte(n)
		return b
	}
	var room [10]byte
	length := protowire.AppendVarint(room[:0], uint64(n))
	b = append(b, length[1:]...) // as much room as the length still lacks
	copy(b[from+len(length)-1:], b[from:from+n])
	copy(b[from-1:], length)
	return b
}
