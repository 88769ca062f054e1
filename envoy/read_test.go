package envoy

import (
	"fmt"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// requestOf is a request of so many descriptors with so many entries each.
func requestOf(descriptors, entries int) *rlsv3.RateLimitRequest {
	m := &rlsv3.RateLimitRequest{Domain: "shop"}
	for i := range descriptors {
		d := new(ratelimitv3.RateLimitDescriptor)
		for k := range entries {
			d.Entries = append(d.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: fmt.Sprint("key", k), Value: fmt.Sprint("ü", i)})
		}
		m.Descriptors = append(m.Descriptors, d)
	}
	return m
}

func wireOf(t testing.TB, m proto.Message) []byte {
	t.Helper()
	wire, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

func TestRequestsAreReadWhole(t *testing.T) {
	weighty, negative, own, hurried := requestOf(2, 1), requestOf(2, 1), requestOf(1, 1), requestOf(4, 2)
	weighty.Descriptors[1].HitsAddend = wrapperspb.UInt64(0)
	negative.Descriptors[0].IsNegativeHits = true
	own.Descriptors[0].Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 3}
	hurried.HitsAddend = 1 << 31
	for name, c := range map[string]struct {
		wire []byte
		ours bool // read without the library
	}{
		"one descriptor":           {wireOf(t, requestOf(1, 1)), true},
		"four descriptors":         {wireOf(t, requestOf(4, 1)), true},
		"hits":                     {wireOf(t, hurried), true},
		"no entries":               {wireOf(t, requestOf(3, 0)), true},
		"nothing":                  {nil, true},
		"as many as are ours":      {wireOf(t, requestOf(64, 1)), true},
		"more":                     {wireOf(t, requestOf(65, 1)), false},
		"many entries":             {wireOf(t, requestOf(2, 33)), false},
		"a weight of its own":      {wireOf(t, weighty), false},
		"a refund":                 {wireOf(t, negative), false},
		"a limit of its own":       {wireOf(t, own), false},
		"fields of the future":     {append(wireOf(t, requestOf(1, 1)), 0xf8, 0x07, 0x01), false},
		"a domain twice":           {append(wireOf(t, requestOf(1, 1)), 0x0a, 1, 'x'), true},
		"a key twice, and a value": {[]byte{0x12, 0x0b, 0x0a, 0x09, 0x0a, 1, 'a', 0x12, 1, 'b', 0x0a, 1, 'c'}, true},
		"a long number":            {[]byte{0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, true},
		"a domain of no text":      {[]byte{0x0a, 1, 0xff}, true},
		"a key of no text":         {[]byte{0x12, 0x05, 0x0a, 0x03, 0x0a, 1, 0xff}, true},
		"cut off":                  {wireOf(t, requestOf(1, 1))[:9], false},
		"a length beyond the end":  {[]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, false},
	} {
		want, got := new(rlsv3.RateLimitRequest), &rlsv3.RateLimitRequest{Domain: "of before", HitsAddend: 7}
		if ours := readRateLimit(c.wire, new(rlsv3.RateLimitRequest)); ours != c.ours {
			t.Errorf("%s: read without the library: %v; want %v", name, ours, c.ours)
		}
		data := mem.BufferSlice{mem.SliceBuffer(c.wire)}
		wantErr, gotErr := newCodec().unmarshal(data, want), newCodec().Unmarshal(data, got)
		if (wantErr == nil) != (gotErr == nil) {
			t.Errorf("%s: error %v; the library's is %v", name, gotErr, wantErr)
		} else if diff := cmp.Diff(want, got, protocmp.Transform()); wantErr == nil && diff != "" {
			t.Errorf("%s (-library +ours)\n%s", name, diff)
		}
	}
}

// FuzzReadRateLimit reads whatever it takes as the library does.
func FuzzReadRateLimit(f *testing.F) {
	for _, m := range []*rlsv3.RateLimitRequest{requestOf(1, 1), requestOf(4, 1), requestOf(2, 3), {HitsAddend: 5}} {
		f.Add(wireOf(f, m))
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		want, got := new(rlsv3.RateLimitRequest), new(rlsv3.RateLimitRequest)
		if !readRateLimit(wire, got) {
			return
		}
		if err := newCodec().unmarshal(mem.BufferSlice{mem.SliceBuffer(wire)}, want); err != nil {
			t.Fatalf("%x was read; the library says: %v", wire, err)
		}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("%x (-library +ours)\n%s", wire, diff)
		}
	})
}

func BenchmarkUnmarshal(b *testing.B) {
	for _, n := range []int{1, 4} {
		wire := mem.BufferSlice{mem.SliceBuffer(wireOf(b, requestOf(n, 1)))}
		for name, unmarshal := range map[string]func(mem.BufferSlice, any) error{"ours": newCodec().Unmarshal, "grpc": newCodec().CodecV2.Unmarshal} {
			b.Run(fmt.Sprintf("%d descriptors/%s", n, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := unmarshal(wire, new(rlsv3.RateLimitRequest)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
