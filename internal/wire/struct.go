package wire

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

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
