package wire

import (
	"math"

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
	b, entry, value := beginFact(b, name)
	return endFact(appendNumber(b, n), entry, value)
}

// AppendTextFact appends an entry with a string, which must be UTF-8, to the map of a
// Struct.
func AppendTextFact(b []byte, name, s string) []byte {
	b, entry, value := beginFact(b, name)
	b = protowire.AppendString(protowire.AppendTag(b, valueString, protowire.BytesType), s)
	return endFact(b, entry, value)
}

// AppendTrueFact appends an entry with the value true to the map of a Struct.
func AppendTrueFact(b []byte, name string) []byte {
	b, entry, value := beginFact(b, name)
	return endFact(AppendNumber(b, valueBool, 1), entry, value)
}

// AppendNumbersFact appends an entry with a list of numbers to the map of a Struct.
func AppendNumbersFact(b []byte, name string, numbers []int64) []byte {
	b, entry, value := beginFact(b, name)
	b, list := Begin(b, valueList)
	for _, n := range numbers {
		var element int
		b, element = Begin(b, listValues)
		b = End(appendNumber(b, n), element)
	}
	return endFact(End(b, list), entry, value)
}

// beginFact begins an entry of the map and its value.
func beginFact(b []byte, name string) (fact []byte, entry, value int) {
	b, entry = Begin(b, structFields)
	b, value = Begin(AppendText(b, factName, name), factValue)
	return b, entry, value
}

func endFact(b []byte, entry, value int) []byte { return End(End(b, value), entry) }

func appendNumber(b []byte, n int64) []byte {
	b = protowire.AppendTag(b, valueNumber, protowire.Fixed64Type)
	return protowire.AppendFixed64(b, math.Float64bits(float64(n)))
}
