package wire_test

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/koalagate/koalagate/internal/wire"
)

// TestReadReturnsAppendedFields reads a message with a field of every wire type.
func TestReadReturnsAppendedFields(t *testing.T) {
	message := wire.AppendNumber(nil, 1, 300)
	message, from := wire.Begin(message, 2)
	message = wire.End(wire.AppendText(message, 5, "within"), from)
	message = protowire.AppendFixed64(protowire.AppendTag(message, 3, protowire.Fixed64Type), 7)
	message = protowire.AppendFixed32(protowire.AppendTag(message, 4, protowire.Fixed32Type), 8)
	text := string(message)

	f := wire.Read(message)
	next := func(tag uint64) bool { return f.Next() && f.Tag == tag }
	if !next(1<<3|wire.Varint) || f.Number != 300 {
		t.Errorf("the first field is %+v; want 300", f)
	}
	if !next(2<<3 | wire.Bytes) {
		t.Errorf("the second field is %+v; want a message", f)
	}
	inner := f.Inner()
	if !inner.Next() || inner.Tag != 5<<3|wire.Bytes || inner.Text(text) != "within" || string(inner.Content()) != "within" {
		t.Errorf("within is %+v; want a text", inner)
	}
	if inner.Next() || inner.Err != nil {
		t.Errorf("the inner message continues: %+v", inner)
	}
	if !next(3<<3|wire.Fixed64) || f.Number != 7 {
		t.Errorf("the third field is %+v; want 7", f)
	}
	if !next(4<<3 | uint64(protowire.Fixed32Type)) {
		t.Errorf("the fourth field is %+v", f)
	}
	if f.Next() || f.Err != nil {
		t.Errorf("the message continues: %+v", f)
	}
}

func TestContentHasNoSpareCapacity(t *testing.T) {
	message := wire.AppendText(wire.AppendText(nil, 1, "a"), 2, "b")
	f := wire.Read(message)
	f.Next()
	if _ = append(f.Content(), "xyz"...); !bytes.Equal(message, wire.AppendText(wire.AppendText(nil, 1, "a"), 2, "b")) {
		t.Errorf("appending to a content overwrote the message: %q", message)
	}
}

// FuzzFields compares the fields of arbitrary input with the fields that protowire reads.
func FuzzFields(f *testing.F) {
	for _, seed := range []string{
		"", "\x08\x01", "\x0a\x01x", "\x09\x01\x02\x03\x04\x05\x06\x07\x08", "\x0d\x01\x02\x03\x04", "\x33\x08\x01\x34", "\x33\x08", "\x34",
		"\x0f", "\x00\x01", "\x80\x80\x80\x80\x10\x01", "\x8a\x00\x01x", "\x0a\x7f", "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\xff\xff",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		got, rest := wire.Read(message), message
		for len(rest) > 0 {
			number, kind, size := protowire.ConsumeField(rest)
			isField := size >= 0 && number <= protowire.MaxValidNumber
			if got.Next() != isField {
				t.Fatalf("of % x: % x is a field: %t, by the library", message, rest, isField)
			}
			if !isField {
				if got.Err == nil || got.Next() {
					t.Fatalf("of % x: the iteration continues, or has no error", message)
				}
				return
			}
			if got.Tag != protowire.EncodeTag(number, kind) || !isContent(&got, rest) {
				t.Fatalf("of % x: % x is read as %+v", message, rest, got)
			}
			rest = rest[size:]
		}
		if got.Next() || got.Err != nil {
			t.Fatalf("of % x: the iteration continues: %+v", message, got)
		}
	})
}

// isContent reports whether a message begins with f.
func isContent(f *wire.Fields, message []byte) bool {
	_, kind, n := protowire.ConsumeTag(message)
	switch kind {
	case protowire.VarintType:
		number, _ := protowire.ConsumeVarint(message[n:])
		return f.Number == number
	case protowire.Fixed64Type:
		number, _ := protowire.ConsumeFixed64(message[n:])
		return f.Number == number
	case protowire.BytesType:
		content, _ := protowire.ConsumeBytes(message[n:])
		return bytes.Equal(f.Content(), content)
	}
	return true
}
