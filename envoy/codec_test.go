package envoy

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/status"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
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

// answer is a reply as most are.
func answer(metadata *structpb.Struct) *rlsv3.RateLimitResponse {
	return &rlsv3.RateLimitResponse{
		OverallCode: rlsv3.RateLimitResponse_OVER_LIMIT,
		Statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{{
			Code:               rlsv3.RateLimitResponse_OVER_LIMIT,
			CurrentLimit:       &rlsv3.RateLimitResponse_RateLimit{Name: "201", RequestsPerUnit: 4, Unit: rlsv3.RateLimitResponse_RateLimit_MINUTE},
			DurationUntilReset: durationpb.New(90e9),
		}},
		ResponseHeadersToAdd: []*corev3.HeaderValue{{Key: "Content-Type", Value: "application/problem+json"}},
		RequestHeadersToAdd:  []*corev3.HeaderValue{{Key: "x", Value: "y"}},
		RawBody:              []byte("slow down"),
		DynamicMetadata:      metadata,
		Quota:                &rlsv3.RateLimitResponse_Quota{Requests: 1},
	}
}

func TestMessagesTravelWhole(t *testing.T) {
	unknown := answer(everything(t, nil))
	unknown.ProtoReflect().SetUnknown([]byte{0xf8, 0x07, 0x01})
	check := &authv3.CheckResponse{
		Status: &status.Status{Code: 7, Message: "no"}, DynamicMetadata: everything(t, nil),
		HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: &authv3.DeniedHttpResponse{Body: "slow down"}},
	}
	for name, m := range map[string]proto.Message{
		"an answer":                answer(everything(t, nil)),
		"metadata within metadata": answer(everything(t, map[string]any{"in": map[string]any{"a": 1}, "list": []any{1, "b", nil}, "null": nil})),
		"empty metadata":           answer(new(structpb.Struct)),
		"no metadata":              answer(nil),
		"nothing at all":           new(rlsv3.RateLimitResponse),
		"fields of the future":     unknown,
		"a check":                  check,
		"an empty check":           new(authv3.CheckResponse),
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

func TestTextsThatAreNoneAreRefused(t *testing.T) {
	for _, s := range []*structpb.Struct{
		{Fields: map[string]*structpb.Value{"a\xff": structpb.NewNumberValue(1)}},
		{Fields: map[string]*structpb.Value{"a": structpb.NewStringValue("\xff")}},
	} {
		if _, err := newCodec().Marshal(answer(s)); err == nil {
			t.Errorf("%v was sent, and no caller could read it", s)
		}
	}
}

// TestNoFieldIsForgotten fails when an answer gets a field that restOfRateLimit
// or restOfCheck does not copy.
func TestNoFieldIsForgotten(t *testing.T) {
	for m, want := range map[proto.Message]int{new(rlsv3.RateLimitResponse): 7, new(authv3.CheckResponse): 5} {
		d := m.ProtoReflect().Descriptor()
		if got := d.Fields().Len(); got != want {
			t.Errorf("%s has %d fields; the codec knows %d: copy the new ones too", d.FullName(), got, want)
		}
		number := map[string]int{"RateLimitResponse": metadataOfRateLimit, "CheckResponse": metadataOfCheck}[string(d.Name())]
		if field := d.Fields().ByName("dynamic_metadata"); field == nil || int(field.Number()) != number {
			t.Errorf("the dynamic_metadata of %s is %v; want the number %d", d.FullName(), field, number)
		}
	}
}

func BenchmarkMarshal(b *testing.B) {
	reply := answer(everything(b, nil))
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
