package redis

import "encoding/binary"

// numbers is a sequence of msgpack integers.
type numbers struct {
	bytes []byte
	count int
}

// MarshalBinary returns the encoded numbers for the client library.
func (n *numbers) MarshalBinary() ([]byte, error) { return n.bytes, nil }

func (n *numbers) reset() { n.bytes, n.count = n.bytes[:0], 0 }

// add appends a nonnegative integer.
func (n *numbers) add(i int64) {
	n.count++
	switch {
	case i < 1<<7:
		n.bytes = append(n.bytes, byte(i))
	case i < 1<<16:
		n.bytes = binary.BigEndian.AppendUint16(append(n.bytes, 0xcd), uint16(i))
	case i < 1<<32:
		n.bytes = binary.BigEndian.AppendUint32(append(n.bytes, 0xce), uint32(i))
	default:
		n.bytes = binary.BigEndian.AppendUint64(append(n.bytes, 0xcf), uint64(i))
	}
}

// addAll appends other numbers.
func (n *numbers) addAll(other *numbers) {
	n.bytes, n.count = append(n.bytes, other.bytes...), n.count+other.count
}
