package envoy

import (
	"bytes"
	"slices"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
)

// calls are messages with texts at every place where a client's bytes can come
// to stand, and others beside them.
var calls = map[proto.Message]string{
	new(rlsv3.RateLimitRequest): `domain: "shop" hits_addend: 3
		descriptors { entries { key: "k" value: "BYTES" } entries { key: "BYTES" value: "v" } entries { key: "" } hits_addend { value: 2 } }
		descriptors { limit { requests_per_unit: 5 unit: HOUR } } descriptors { entries { key: "k" value: "äöü" } }`,
	new(authv3.CheckRequest): `attributes {
		source { principal: "BYTES" address { socket_address { address: "192.0.2.1" port_value: 7 } } }
		request { time { seconds: 1 } http { path: "/BYTES" size: -1 raw_body: "\xff" headers { key: "x-user" value: "BYTES" } headers { key: "y" value: "z" }
			header_map { headers { key: "BYTES" raw_value: "\xfe" } headers { key: "b" value: "c" } } } }
		context_extensions { key: "act" value: "BYTES" }
		metadata_context { filter_metadata { key: "n" value { fields { key: "tenant" value { string_value: "BYTES" } }
			fields { key: "list" value { list_value { values { string_value: "BYTES" } values { number_value: 2 } values { bool_value: true } } } } } } }
		tls_session { sni: "BYTES" } }`,
}

// Texts hold any bytes: they arrive as they were sent, and what stands beside
// them does too.
func TestTextsOfAnyBytes(t *testing.T) {
	placeholder, bytesOfClient := []byte("BYTES"), []byte("\xffa\xc0\xafz")
	for kind, text := range calls {
		want := kind.ProtoReflect().New().Interface()
		if err := prototext.Unmarshal([]byte(text), want); err != nil {
			t.Fatal(err)
		}
		wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		odd := bytes.ReplaceAll(wire, placeholder, bytesOfClient)
		got := kind.ProtoReflect().New().Interface()
		if err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(odd)}, got); err != nil {
			t.Fatalf("%T: %v", kind, err)
		}
		// Compared as bytes, since texts that are no UTF-8 have no other form.
		back := appendTexts(nil, got)
		if wanted := bytes.ReplaceAll(appendTexts(nil, want), placeholder, bytesOfClient); !bytes.Equal(back, wanted) {
			t.Errorf("%T: texts %q; want %q", kind, back, wanted)
		}
	}
}

// What is spoilt in other ways is refused as ever.
func TestSpoiltMessagesAreRefused(t *testing.T) {
	for name, wire := range map[string]string{
		"cut in the middle of a text": "\x0a\x09sho\xff",
		"cut, with a text before":     "\x0a\x02\xff\xfe\x12\x05",
		"a number for a text":         "\x08",
		"no field at all":             "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
	} {
		if err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer([]byte(wire))}, new(rlsv3.RateLimitRequest)); err == nil {
			t.Errorf("%s: it was read", name)
		}
	}
}

// Whatever arrives, reading it ends, and what the library reads is read as the
// library does.
func FuzzUnmarshal(f *testing.F) {
	for kind, text := range calls {
		m := kind.ProtoReflect().New().Interface()
		if err := prototext.Unmarshal([]byte(text), m); err != nil {
			f.Fatal(err)
		}
		wire, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire)
		f.Add(bytes.ReplaceAll(wire, []byte("BYTES"), []byte("\xff\xfe\xfd\xfc\xfb")))
	}
	// Two members of a oneof, the first of which holds texts and goes.
	f.Add([]byte("\x0a\x3e\x52\x3c\x0a\x3a\x0a\x01n\x12\x35\x0a\x33\x0a\x01k\x12\x2e2\x08\x0a\x06\x1a\x04\xff\xfe\xfd\xfc\x1a\x01a\x1a\x01\xff"))
	f.Fuzz(func(t *testing.T, wire []byte) {
		for kind := range calls {
			want, got := kind.ProtoReflect().New().Interface(), kind.ProtoReflect().New().Interface()
			plain := proto.Unmarshal(wire, want)
			err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(wire)}, got)
			if plain == nil && (err != nil || !cmp.Equal(got, want, protocmp.Transform())) {
				t.Errorf("%T: %v\n%s", kind, err, cmp.Diff(want, got, protocmp.Transform()))
			}
		}
	})
}

// What the library overwrites stays overwritten: of the members of a oneof, and
// of the entries of a map under one key, the last one holds.
func TestTextsThatAnotherFieldReplaces(t *testing.T) {
	entry := func(value ...byte) []byte {
		b := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte("k"))
		return protowire.AppendBytes(protowire.AppendTag(b, 2, protowire.BytesType), value)
	}
	text := protowire.AppendBytes(protowire.AppendTag(nil, 3, protowire.BytesType), []byte("\xff"))
	truth := protowire.AppendVarint(protowire.AppendTag(nil, 4, protowire.VarintType), 1)
	field := func(entries ...[]byte) (wire []byte) {
		for _, e := range entries {
			wire = protowire.AppendBytes(protowire.AppendTag(wire, 1, protowire.BytesType), e)
		}
		return wire
	}
	for name, wire := range map[string][]byte{
		"a member of a oneof": field(entry(append(bytes.Clone(text), truth...)...)),
		"an entry of a map":   field(entry(text...), entry(truth...)),
	} {
		got := new(structpb.Struct)
		if err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(wire)}, got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if v := got.GetFields()["k"]; !v.GetBoolValue() {
			t.Errorf("%s: %q; want true, which stands behind the text", name, v)
		}
	}
}

// appendTexts appends all texts of a message, each after the number of its
// field, in the order of the fields and of the keys of maps.
func appendTexts(b []byte, m proto.Message) []byte {
	return textsOf(b, m.ProtoReflect())
}

func textsOf(b []byte, m protoreflect.Message) []byte {
	one := func(field protoreflect.FieldDescriptor, v protoreflect.Value) {
		switch field.Kind() {
		case protoreflect.StringKind:
			b = append(append(protowire.AppendVarint(b, uint64(field.Number())), v.String()...), '\n')
		case protoreflect.MessageKind:
			b = textsOf(b, v.Message())
		}
	}
	for i := range m.Descriptor().Fields().Len() {
		field := m.Descriptor().Fields().Get(i)
		switch {
		case !m.Has(field):
		case field.IsMap():
			entries := m.Get(field).Map()
			var keys []string
			entries.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
				keys = append(keys, k.String())
				return true
			})
			for _, key := range slices.Sorted(slices.Values(keys)) {
				b = append(append(b, key...), '=')
				one(field.MapValue(), entries.Get(protoreflect.ValueOfString(key).MapKey()))
			}
		case field.IsList():
			for j := range m.Get(field).List().Len() {
				one(field, m.Get(field).List().Get(j))
			}
		default:
			one(field, m.Get(field))
		}
	}
	return b
}
