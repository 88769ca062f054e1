package envoy

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
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
	"google.golang.org/protobuf/types/known/wrapperspb"
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
	negative := plainAnswer(nil)
	negative.OverallCode, negative.Statuses[0].DurationUntilReset = -1, &durationpb.Duration{Seconds: -1, Nanos: -2}
	rawHeader := plainAnswer(nil)
	rawHeader.ResponseHeadersToAdd[0].RawValue = []byte("\xff")
	quota := plainAnswer(nil)
	quota.Statuses[0].Quota = &rlsv3.RateLimitResponse_Quota{Requests: 1}
	newLimit := plainAnswer(nil)
	newLimit.Statuses[0].CurrentLimit.ProtoReflect().SetUnknown([]byte{0xf8, 0x07, 0x01})
	check := &authv3.CheckResponse{
		Status: &status.Status{Code: 7, Message: "no"}, DynamicMetadata: everything(t, nil),
		HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: &authv3.DeniedHttpResponse{Body: "slow down"}},
	}
	for name, m := range map[string]proto.Message{
		"an answer":                answer(everything(t, nil)),
		"an answer as ours":        plainAnswer(everything(t, nil)),
		"a long answer":            plainAnswer(everything(t, map[string]any{"long": strings.Repeat("ü", 20_000)})),
		"negative numbers":         negative,
		"a raw header":             rawHeader,
		"a quota of its own":       quota,
		"a limit of the future":    newLimit,
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

// plainAnswer is one that the codec writes by itself.
func plainAnswer(metadata *structpb.Struct) *rlsv3.RateLimitResponse {
	m := answer(metadata)
	m.RequestHeadersToAdd, m.Quota = nil, nil
	m.Statuses[0].CurrentLimit.UnitMultiplier = wrapperspb.UInt32(0)
	m.Statuses = append(m.Statuses, new(rlsv3.RateLimitResponse_DescriptorStatus), &rlsv3.RateLimitResponse_DescriptorStatus{LimitRemaining: 1 << 31})
	return m
}

func TestTextsThatAreNoneAreRefused(t *testing.T) {
	for _, change := range []func(*rlsv3.RateLimitResponse){
		func(m *rlsv3.RateLimitResponse) { m.Statuses[0].CurrentLimit.Name = "\xff" },
		func(m *rlsv3.RateLimitResponse) { m.ResponseHeadersToAdd[0].Value = "\xff" },
	} {
		m := plainAnswer(nil)
		change(m)
		if _, err := newCodec().Marshal(m); err == nil {
			t.Errorf("%v was sent, and no caller could read it", m)
		}
	}
	for _, s := range []*structpb.Struct{
		{Fields: map[string]*structpb.Value{"a\xff": structpb.NewNumberValue(1)}},
		{Fields: map[string]*structpb.Value{"a": structpb.NewStringValue("\xff")}},
	} {
		if _, err := newCodec().Marshal(answer(s)); err == nil {
			t.Errorf("%v was sent, and no caller could read it", s)
		}
	}
}

// TestNoFieldIsForgotten fails when a message gets a field that the codec does
// not read or write.
func TestNoFieldIsForgotten(t *testing.T) {
	for m, want := range map[proto.Message]int{
		new(rlsv3.RateLimitResponse): 7, new(rlsv3.RateLimitResponse_DescriptorStatus): 5, new(rlsv3.RateLimitResponse_RateLimit): 4,
		new(corev3.HeaderValue): 3, new(durationpb.Duration): 2, new(wrapperspb.UInt32Value): 1, new(authv3.CheckResponse): 5,
		new(rlsv3.RateLimitRequest): 3, new(ratelimitv3.RateLimitDescriptor): 4, new(ratelimitv3.RateLimitDescriptor_Entry): 2,
	} {
		d := m.ProtoReflect().Descriptor()
		if got := d.Fields().Len(); got != want {
			t.Errorf("%s has %d fields; the codec knows %d: copy the new ones too", d.FullName(), got, want)
		}
	}
}

func BenchmarkMarshal(b *testing.B) {
	reply := plainAnswer(everything(b, nil))
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
