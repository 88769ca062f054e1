package envoy

import (
	"bytes"
	"iter"
	"unicode/utf8"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxDepth is how deep messages may lie in each other, as in the library.
const maxDepth = 10_000

// unmarshal reads a message by the library. Envoy puts any bytes of a client's header into
// texts, which the library refuses to read unless they are UTF-8: the call would
// fail, and Envoy's failure mode let the request through. So what it refuses is
// read with other bytes in their place, and then gets its own.
func (c codec) unmarshal(data mem.BufferSlice, v any) error {
	err := c.CodecV2.Unmarshal(data, v)
	m, ok := v.(proto.Message)
	if err == nil || !ok {
		return err
	}
	wire := data.Materialize()
	plain := bytes.Clone(wire)
	if !replaceBytes(m.ProtoReflect().Descriptor(), plain, maxDepth) || proto.Unmarshal(plain, m) != nil {
		return err // it is spoilt in other ways
	}
	restoreTexts(m.ProtoReflect(), wire)
	return nil
}

// replaceBytes puts question marks where the texts of a message hold what is no
// UTF-8, and tells whether there was any. Lengths stay as they are.
func replaceBytes(d protoreflect.MessageDescriptor, wire []byte, depth int) (found bool) {
	if depth == 0 {
		return false
	}
	for field, value := range fieldsOf(d, wire) {
		switch field.Kind() {
		case protoreflect.StringKind:
			for i := 0; i < len(value); {
				r, size := utf8.DecodeRune(value[i:])
				if r == utf8.RuneError && size == 1 {
					value[i], found = '?', true
				}
				i += size
			}
		case protoreflect.MessageKind:
			found = replaceBytes(field.Message(), value, depth-1) || found
		}
	}
	return found
}

// restoreTexts gives a message that was read from wire the texts that stand
// there. Keys of maps are not restored: no client writes them.
func restoreTexts(m protoreflect.Message, wire []byte) {
	seen := make(map[protoreflect.FieldNumber]int)
	for field, value := range fieldsOf(m.Descriptor(), wire) {
		isText := field.Kind() == protoreflect.StringKind
		switch {
		case !m.Has(field): // another field of the same oneof stands behind it
		case field.IsMap():
			restoreEntry(m.Get(field).Map(), field, value)
		case field.IsList():
			list, i := m.Get(field).List(), seen[field.Number()]
			seen[field.Number()]++
			switch {
			case i >= list.Len(): // another message of a oneof stands behind that with the list
			case isText:
				list.Set(i, protoreflect.ValueOfString(string(value)))
			default:
				restoreTexts(list.Get(i).Message(), value)
			}
		case isText:
			m.Set(field, protoreflect.ValueOfString(string(value)))
		default:
			restoreTexts(m.Mutable(field).Message(), value)
		}
	}
}

// restoreEntry restores the value of a map's entry.
func restoreEntry(entries protoreflect.Map, field protoreflect.FieldDescriptor, wire []byte) {
	var key protoreflect.MapKey
	var text []byte
	for part, value := range fieldsOf(field.Message(), wire) {
		if part.Number() == field.MapKey().Number() {
			key = protoreflect.ValueOfString(string(value)).MapKey()
		} else {
			text = value
		}
	}
	switch {
	case !key.IsValid() || !entries.Has(key):
	case field.MapValue().Kind() == protoreflect.StringKind:
		entries.Set(key, protoreflect.ValueOfString(string(text)))
	default:
		restoreTexts(entries.Mutable(key).Message(), text)
	}
}

// fieldsOf are the texts and messages that a message consists of, with their
// bytes in wire. It ends where wire does, or is spoilt.
func fieldsOf(d protoreflect.MessageDescriptor, wire []byte) iter.Seq2[protoreflect.FieldDescriptor, []byte] {
	return func(yield func(protoreflect.FieldDescriptor, []byte) bool) {
		for len(wire) > 0 {
			number, kind, n := protowire.ConsumeTag(wire)
			if n < 0 {
				return
			}
			size := protowire.ConsumeFieldValue(number, kind, wire[n:])
			if size < 0 {
				return
			}
			if field := d.Fields().ByNumber(number); kind == protowire.BytesType && isTextOrMessage(field) {
				if value, _ := protowire.ConsumeBytes(wire[n:]); !yield(field, value) {
					return
				}
			}
			wire = wire[n+size:]
		}
	}
}

func isTextOrMessage(field protoreflect.FieldDescriptor) bool {
	return field != nil && (field.Kind() == protoreflect.StringKind || field.Kind() == protoreflect.MessageKind)
}
