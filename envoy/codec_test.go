package envoy

import (
	"errors"
	"io"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/status"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
)

// everything is metadata of all kinds of values that doors tell.
func everything(t testing.TB, more map[string]any) *structpb.Struct {
	facts := map[string]any{"verdict": "deny", "limit": 4, "remaining": 0, "reset": -1.5, "degraded": true, "off": false, "": "", "ß": "ünï"}
	for key, value := range more {
		facts[key] = value
	}
	s, err := structpb.NewStruct(facts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// check is a reply as most are.
func check(metadata *structpb.Struct) *authv3.CheckResponse {
	return &authv3.CheckResponse{
		Status: &status.Status{Code: 7, Message: "no"}, DynamicMetadata: metadata,
		HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: &authv3.DeniedHttpResponse{Body: "slow down"}},
	}
}

func TestMessagesTravelWhole(t *testing.T) {
	future := []byte{0xf8, 0x07, 0x01}
	unknown, unknownFact := check(everything(t, nil)), check(everything(t, nil))
	unknown.ProtoReflect().SetUnknown(future)
	unknownFact.DynamicMetadata.ProtoReflect().SetUnknown(future)
	for name, m := range map[string]proto.Message{
		"a check":                  check(everything(t, nil)),
		"a long one":               check(everything(t, map[string]any{"long": strings.Repeat("ü", 20_000)})),
		"metadata within metadata": check(everything(t, map[string]any{"in": map[string]any{"a": 1}, "list": []any{1, "b", nil}, "null": nil})),
		"empty metadata":           check(new(structpb.Struct)),
		"no metadata":              check(nil),
		"nothing at all":           new(authv3.CheckResponse),
		"fields of the future":     unknown,
		"facts of the future":      unknownFact,
		"another message":          &healthv1.HealthCheckResponse{Status: healthv1.HealthCheckResponse_SERVING},
	} {
		before := proto.Clone(m)
		wire, err := newCodec().Marshal(m)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := m.ProtoReflect().New().Interface()
		if err := newCodec().Unmarshal(wire, got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(before, got, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-sent +received)\n%s", name, diff)
		}
		if !proto.Equal(before, m) {
			t.Errorf("%s: it was changed on the way", name)
		}
	}
}

func TestWhatIsInWireFormTravelsAsItIs(t *testing.T) {
	wire, err := newCodec().Marshal([]byte("\x08\x01"))
	if got := string(wire.Materialize()); err != nil || got != "\x08\x01" {
		t.Errorf("sent %q, %v", got, err)
	}
}

// itself reads what it is sent.
type itself struct{ read string }

// UnmarshalBinary refuses what is empty.
func (i *itself) UnmarshalBinary(wire []byte) error {
	if i.read = string(wire); i.read == "" {
		return io.ErrUnexpectedEOF
	}
	return nil
}

func TestRequestsReadThemselves(t *testing.T) {
	for _, sent := range []string{"as it came", strings.Repeat("in parts", 2)} {
		var got itself
		half := len(sent) / 2
		parts := mem.BufferSlice{mem.SliceBuffer([]byte(sent[:half])), mem.SliceBuffer([]byte(sent[half:]))}
		if err := newCodec().Unmarshal(parts, &got); err != nil || got.read != sent {
			t.Errorf("read %q, %v; want %q", got.read, err, sent)
		}
	}
	if err := newCodec().Unmarshal(nil, new(itself)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v; want what the request says of itself", err)
	}
}

func TestRepliesThatSayNothingAreNoMessages(t *testing.T) {
	for _, reply := range []any{nil, (*authv3.CheckResponse)(nil), []byte(nil), []byte{}, "a text"} {
		if isMessage(reply) {
			t.Errorf("%#v would be sent", reply)
		}
	}
	for _, reply := range []any{new(authv3.CheckResponse), []byte{8, 1}} {
		if !isMessage(reply) {
			t.Errorf("%#v would not be sent", reply)
		}
	}
}

func TestTextsThatAreNoneAreRefused(t *testing.T) {
	for _, s := range []*structpb.Struct{
		{Fields: map[string]*structpb.Value{"a\xff": structpb.NewNumberValue(1)}},
		{Fields: map[string]*structpb.Value{"a": structpb.NewStringValue("\xff")}},
	} {
		if _, err := newCodec().Marshal(check(s)); err == nil {
			t.Errorf("%v was sent, and no caller could read it", s)
		}
	}
}

// TestNoFieldIsForgotten fails when a message gets a field that the codec does
// not write.
func TestNoFieldIsForgotten(t *testing.T) {
	for m, want := range map[proto.Message]int{
		new(authv3.CheckResponse): 5, new(structpb.Struct): 1, new(structpb.Value): 6,
	} {
		d := m.ProtoReflect().Descriptor()
		if got := d.Fields().Len(); got != want {
			t.Errorf("%s has %d fields; the codec knows %d: copy the new ones too", d.FullName(), got, want)
		}
	}
}

func BenchmarkMarshal(b *testing.B) {
	reply := check(everything(b, nil))
	for name, marshal := range map[string]func(any) (mem.BufferSlice, error){"ours": newCodec().Marshal, "grpc": newCodec().CodecV2.Marshal} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := marshal(reply); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
