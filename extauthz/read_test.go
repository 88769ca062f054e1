package extauthz

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/koalagate/koalagate/rules"
)

// messageFrom returns what the door should read of a request, without its metadata.
func messageFrom(m *authv3.CheckRequest) *message {
	c := m.GetAttributes()
	http := c.GetRequest().GetHttp()
	a := &message{
		method: http.GetMethod(), path: http.GetPath(), host: http.GetHost(), scheme: http.GetScheme(),
		peer: c.GetSource().GetAddress().GetSocketAddress().GetAddress(), principal: c.GetSource().GetPrincipal(), sni: c.GetTlsSession().GetSni(),
		headers: entriesOf(http.GetHeaders()), isRaw: http.GetHeaderMap() != nil, context: c.GetContextExtensions(),
	}
	for _, h := range http.GetHeaderMap().GetHeaders() {
		value := h.GetValue()
		if len(h.GetRawValue()) > 0 {
			value = string(h.GetRawValue())
		}
		a.raw = append(a.raw, rules.Header{Name: h.GetKey(), Value: value})
	}
	return a
}

// entriesOf returns the entries of a map, sorted by key.
func entriesOf(m map[string]string) (list []rules.Header) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		list = append(list, rules.Header{Name: key, Value: m[key]})
	}
	return list
}

// asMap returns the entries as a map would hold them: sorted, the last of a key.
func asMap(list []rules.Header) []rules.Header {
	m := map[string]string{}
	for _, e := range list {
		m[e.Name] = e.Value
	}
	return entriesOf(m)
}

// compare reads a request with the library and with the door, and compares. Only the
// door accepts strings that are not UTF-8, and errors in fields that it does not read.
func compare(t testing.TB, name string, encoded []byte) {
	t.Helper()
	var m authv3.CheckRequest
	if proto.Unmarshal(encoded, &m) != nil {
		new(message).read(encoded) // it must end, and that is all
		return
	}
	got := new(message)
	if err := got.read(bytes.Clone(encoded)); err != nil {
		t.Errorf("%s, %x: %v; the library reads it", name, encoded, err)
		return
	}
	metadata := gatewayMetadata{m.GetAttributes()}
	for _, place := range metadata.places() {
		want, isThere := metadata.lookup(place[0], place[1])
		if value, found := got.lookup(place[0], place[1]); value != want || found != isThere {
			t.Errorf("%s, %x: the metadata %q is %q, %t; the library's is %q, %t", name, encoded, place, value, found, want, isThere)
		}
	}
	got.headers = asMap(got.headers)
	same := []cmp.Option{cmp.AllowUnexported(message{}), cmpopts.IgnoreFields(message{}, "text", "metadata", "routeMetadata"), cmpopts.EquateEmpty()}
	if diff := cmp.Diff(messageFrom(&m), got, same...); diff != "" {
		t.Errorf("%s, %x (-library +ours)\n%s", name, encoded, diff)
	}
}

// gatewayMetadata is the dynamic metadata as the library reads it.
type gatewayMetadata struct{ *authv3.AttributeContext }

func (m gatewayMetadata) lookup(namespace, path string) (string, bool) {
	if v, ok := findIn(m.GetMetadataContext().GetFilterMetadata()[namespace], path); ok {
		return v, true
	}
	return findIn(m.GetRouteMetadataContext().GetFilterMetadata()[namespace], path)
}

func findIn(s *structpb.Struct, path string) (string, bool) {
	switch v := s.GetFields()[path].GetKind().(type) {
	case *structpb.Value_StringValue:
		return v.StringValue, true
	case *structpb.Value_NumberValue:
		return strconv.FormatFloat(v.NumberValue, 'f', -1, 64), true
	case *structpb.Value_BoolValue:
		return strconv.FormatBool(v.BoolValue), true
	}
	for end := strings.LastIndexByte(path, '.'); end >= 0; end = strings.LastIndexByte(path[:end], '.') {
		if v, ok := findIn(s.GetFields()[path[:end]].GetStructValue(), path[end+1:]); ok {
			return v, true
		}
	}
	return "", false
}

// places returns the namespaces and paths of all values, and some without a value.
func (m gatewayMetadata) places() (all [][2]string) {
	var walk func(namespace, before string, s *structpb.Struct)
	walk = func(namespace, before string, s *structpb.Struct) {
		for name, v := range s.GetFields() {
			all = append(all, [2]string{namespace, before + name}, [2]string{namespace, before + name + ".k"})
			if strings.Count(before, ".") < 4 { // a walk by longer paths takes long, and theirs are rules' authors'
				walk(namespace, before+name+".", v.GetStructValue())
			}
		}
	}
	for _, part := range []*corev3.Metadata{m.GetMetadataContext(), m.GetRouteMetadataContext()} {
		for namespace, s := range part.GetFilterMetadata() {
			all = append(all, [2]string{namespace, ""}, [2]string{namespace, "."})
			walk(namespace, "", s)
		}
	}
	return append(all, [2]string{"", ""}, [2]string{"n", "k"})
}

// whole has a value in every field that is read, and in the neighboring fields.
const whole = `attributes {
	source { service: "s" principal: "BYTES" certificate: "c" labels { key: "a" value: "b" }
		address { socket_address { protocol: UDP address: "192.0.2.1" port_value: 7 } } }
	destination { address { socket_address { address: "192.0.2.9" } } principal: "other" }
	request { time { seconds: 1 } http { id: "1" method: "GET" path: "/BYTES" host: "shop.example" scheme: "https" query: "q" fragment: "f" size: -1
		protocol: "HTTP/2" body: "body" raw_body: "\xff" headers { key: "x-user" value: "BYTES" } headers { key: "y" value: "z" } headers { key: "none" } } }
	context_extensions { key: "act" value: "BYTES" } context_extensions { key: "" value: "x" } context_extensions { key: "empty" }
	metadata_context { filter_metadata { key: "n" value { fields { key: "k" value { string_value: "BYTES" } }
		fields { key: "a.b" value { struct_value { fields { key: "c" value { number_value: -1.5 } } } } }
		fields { key: "a" value { struct_value { fields { key: "b.c" value { number_value: 1e300 } } fields { key: "yes" value { bool_value: true } } } } }
		fields { key: "list" value { list_value { values { string_value: "BYTES" } } } } fields { key: "null" value { null_value: NULL_VALUE } } } } }
	route_metadata_context { filter_metadata { key: "n" value { fields { key: "null" value { bool_value: false } } } } filter_metadata { key: "r" value {} } }
	tls_session { sni: "BYTES" } }`

// raw has headers in the form of encode_raw_headers.
const raw = `attributes { request { http { path: "/" headers { key: "mapped" value: "1" } header_map {
	headers { key: "BYTES" raw_value: "\xfe" } headers { key: "b" value: "c" } headers { key: "b" value: "no" raw_value: "d" } headers {} } } } }`

func fromText(t testing.TB, text string) []byte {
	t.Helper()
	m := new(authv3.CheckRequest)
	if err := prototext.Unmarshal([]byte(text), m); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

// field returns a field of the type Bytes.
func field(number byte, content ...[]byte) []byte {
	all := bytes.Join(content, nil)
	return append([]byte{number<<3 | 2, byte(len(all))}, all...)
}

// wires returns requests in wire form, ordinary and unusual ones.
func wires(t testing.TB) map[string][]byte {
	attributes := func(content ...[]byte) []byte { return field(1, content...) }
	peer := func(addresses ...[]byte) []byte { return attributes(field(1, field(1, addresses...))) }
	socket, pipe, internal := field(1, field(2, []byte("1.2.3.4"))), field(2, field(1, []byte("/s"))), field(3, field(1, []byte("l")))
	http := func(content ...[]byte) []byte { return attributes(field(4, field(2, content...))) }
	header := func(parts ...[]byte) []byte { return field(3, parts...) }
	key, other := field(1, []byte("k")), field(1, []byte("o"))
	text := func(s string) []byte { return field(3, []byte(s)) }
	value := func(kinds ...[]byte) []byte { return field(2, kinds...) }
	metadata := func(entries ...[]byte) []byte {
		return attributes(field(11, field(1, field(1, []byte("n")), field(2, entries...))))
	}
	fact := func(parts ...[]byte) []byte { return field(1, parts...) }
	object := func(facts ...[]byte) []byte { return field(5, facts...) }
	truth, number, null, list := []byte{0x20, 1}, []byte{0x11, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f}, []byte{0x08, 0}, field(6)
	plain := fromText(t, whole)
	return map[string][]byte{
		"of all fields":                      plain,
		"raw headers":                        fromText(t, raw),
		"no raw headers at all":              http(field(13)),
		"nothing":                            nil,
		"no attributes":                      attributes(),
		"all twice":                          append(bytes.Clone(plain), plain...),
		"both forms of headers":              append(bytes.Clone(plain), fromText(t, raw)...),
		"a field of the future":              append(bytes.Clone(plain), 0xf8, 0x07, 0x01),
		"a group":                            append(bytes.Clone(plain), 0x33, 0x08, 0x01, 0x34),
		"attributes that are a number":       {0x08, 0x05},
		"a pipe behind a socket":             peer(socket, pipe),
		"an internal address behind it":      peer(socket, internal),
		"a socket behind a pipe":             peer(pipe, socket),
		"a pipe in another part":             append(peer(socket), peer(pipe)...),
		"a socket in two parts":              peer(socket, field(1)),
		"a header twice":                     http(header(key, field(2, []byte("a"))), header(key, field(2, []byte("b")))),
		"a key twice, and a value":           http(header(key, field(2, []byte("a")), other, field(2, []byte("b")))),
		"a raw value that is taken back":     http(field(13, field(1, key, field(2, []byte("a")), field(3, []byte("b")), field(3)))),
		"a path twice":                       http(field(4, []byte("/a")), field(4, []byte("/b"))),
		"a context without a key":            attributes(field(10, field(2, []byte("x")))),
		"facts of all kinds":                 metadata(fact(key, value(text("a"))), fact(other, value(number)), fact(field(1, []byte("t")), value(truth))),
		"a fact twice":                       metadata(fact(key, value(text("a"))), fact(key, value(truth))),
		"a fact that is taken back":          metadata(fact(key, value(text("a"))), fact(key)),
		"a kind behind another":              metadata(fact(key, value(text("a"), number))),
		"null behind a text":                 metadata(fact(key, value(text("a"), null))),
		"a list behind a text":               metadata(fact(key, value(text("a"), list))),
		"an empty text":                      metadata(fact(key, value(text("")))),
		"a value in two parts":               metadata(fact(key, value(object(fact(key, value(text("a"))))), value(object(fact(other, value(truth)))))),
		"an object in two parts":             metadata(fact(key, value(object(fact(key, value(text("a")))), object(fact(other, value(truth)))))),
		"an object behind a kind":            metadata(fact(key, value(object(fact(key, value(text("a")))), truth, object(fact(other, value(truth)))))),
		"an object in two entries":           metadata(fact(key, value(object(fact(key, value(text("a")))))), fact(key, value(object(fact(other, value(truth)))))),
		"a namespace in two parts":           append(metadata(fact(key, value(text("a")))), metadata(fact(other, value(text("b"))))...),
		"a namespace of two parts":           attributes(field(11, field(1, field(1, []byte("n")), field(2, fact(key, value(text("a")))), field(2, fact(other, value(truth)))))),
		"a fact of the future":               metadata(fact(key, value(field(15, []byte("x")), truth, field(9)))),
		"a number that is a text":            metadata(fact(key, value(field(2, []byte("x"))))),
		"a path by names with dots in parts": metadata(fact(field(1, []byte("o.k")), value(text("a"))), fact(other, value(object(fact(key, value(text("b"))))))),
	}
}

func TestReaderAgreesWithTheLibrary(t *testing.T) {
	for name, encoded := range wires(t) {
		if err := proto.Unmarshal(encoded, new(authv3.CheckRequest)); err != nil {
			t.Errorf("%s: the library does not read it: %v", name, err)
		}
		compare(t, name, encoded)
	}
}

// A corrupt request is an error, and Envoy's failure mode applies.
func TestCorruptRequestsAreRejected(t *testing.T) {
	plain := fromText(t, whole)
	for name, encoded := range map[string][]byte{
		"cut off":                                 plain[:len(plain)-1],
		"cut off at its beginning":                plain[:1],
		"a length beyond its message":             field(1, []byte{4<<3 | 2, 9, 1}),
		"a spoilt source":                         field(1, field(1, field(4, nil), []byte{0x0f})),
		"a spoilt address":                        field(1, field(1, field(1, field(1, []byte{0x0f})))),
		"a spoilt header":                         field(1, field(4, field(2, field(3, []byte{0x0a, 5})))),
		"a spoilt header behind whom others come": field(1, field(4, field(2, field(3, []byte{0x0a, 5}), field(3)))),
		"a spoilt raw header":                     field(1, field(4, field(2, field(13, field(1, []byte{0x0f}))))),
		"a spoilt context":                        field(1, field(10, []byte{0x0f})),
		"a spoilt TLS session":                    field(1, field(12, []byte{0x0f})),
		"a group without an end":                  append(bytes.Clone(plain), 0x33, 0x08, 0x01),
		"an end without a group":                  append(bytes.Clone(plain), 0x34),
		"the field 0":                             {0x02, 0x01, 'x'},
	} {
		if err := new(message).read(encoded); err == nil {
			t.Errorf("%s: it was read", name)
		}
	}
}

// Envoy forwards strings of clients that are not UTF-8.
func TestStringsMayHoldAnyBytes(t *testing.T) {
	const odd = "\xffa\xc0\xafz"
	read := func(text string) *message {
		a := new(message)
		if err := a.read(bytes.ReplaceAll(fromText(t, text), []byte("BYTES"), []byte(odd))); err != nil {
			t.Fatal(err)
		}
		return a
	}
	a := read(whole)
	header, _ := a.Header("x-user")
	claim, _ := a.lookup("n", "k")
	for name, got := range map[string]string{
		"principal": a.principal, "path": strings.TrimPrefix(a.path, "/"), "SNI": a.sni, "context": a.context["act"], "header": header, "metadata": claim,
	} {
		if got != odd {
			t.Errorf("%s: %q; want %q", name, got, odd)
		}
	}
	if got := read(raw).raw[0]; got != (rules.Header{Name: odd, Value: "\xfe"}) {
		t.Errorf("the raw header is %q", got)
	}
}

// TestNoFieldIsMissing fails when a message gains a field: the door may have to read it,
// or it may be a new kind of value.
func TestNoFieldIsMissing(t *testing.T) {
	for m, want := range map[proto.Message]int{
		new(authv3.CheckRequest): 1, new(authv3.AttributeContext): 7, new(authv3.AttributeContext_Peer): 5, new(corev3.Address): 3,
		new(authv3.AttributeContext_Request): 2, new(authv3.AttributeContext_HttpRequest): 13, new(authv3.AttributeContext_TLSSession): 1,
		new(corev3.HeaderMap): 1, new(corev3.HeaderValue): 3, new(corev3.Metadata): 2, new(structpb.Struct): 1, new(structpb.Value): 6,
	} {
		d := m.ProtoReflect().Descriptor()
		if got := d.Fields().Len(); got != want {
			t.Errorf("%s has %d fields; the door knows %d: see whether it must read the new ones", d.FullName(), got, want)
		}
	}
}

// FuzzRead compares the reader with the library on arbitrary input.
func FuzzRead(f *testing.F) {
	for _, wire := range wires(f) {
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, encoded []byte) { compare(t, "fuzz", encoded) })
}

func BenchmarkRead(b *testing.B) {
	for name, text := range map[string]string{"headers as a map": "headers_as_a_map", "raw headers": "raw_headers"} {
		encoded := captured(b, text)
		b.Run(name+"/ours", func(b *testing.B) {
			var a message
			b.ReportAllocs()
			for b.Loop() {
				if err := a.read(encoded); err != nil {
					b.Fatal(err)
				}
				a.reset()
			}
		})
		b.Run(name+"/library", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := proto.Unmarshal(encoded, new(authv3.CheckRequest)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
