package ratelimit

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/wire/wiretest"
)

// messageFrom returns what the door should read of a request.
func messageFrom(m *rlsv3.RateLimitRequest) *message {
	a := &message{domain: m.GetDomain(), hits: m.GetHitsAddend(), count: len(m.GetDescriptors())}
	for _, source := range m.GetDescriptors()[:min(a.count, maxDescriptors)] {
		d := descriptor{from: len(a.entries), isNegative: source.GetIsNegativeHits(), hasHits: source.GetHitsAddend() != nil, hits: source.GetHitsAddend().GetValue()}
		for _, e := range source.GetEntries() {
			a.entries = append(a.entries, mapping.Entry{Key: e.GetKey(), Value: e.GetValue()})
		}
		d.to = len(a.entries)
		if l := source.GetLimit(); l != nil {
			d.hasLimit = true
			d.limit = limit{l.GetRequestsPerUnit(), l.GetUnit(), l.GetUnitMultiplier() != nil, l.GetUnitMultiplier().GetValue()}
		}
		a.descriptors = append(a.descriptors, d)
	}
	return a
}

// compare reads a request with the library and with the door, and compares. Only the
// door accepts strings that are not UTF-8.
func compare(t testing.TB, name string, wire []byte) (got message, ok bool) {
	t.Helper()
	var m rlsv3.RateLimitRequest
	wantErr, gotErr := proto.Unmarshal(wire, &m), got.read(bytes.Clone(wire))
	switch {
	case wantErr != nil && strings.Contains(wantErr.Error(), "invalid UTF-8"):
	case (wantErr == nil) != (gotErr == nil):
		t.Errorf("%s, %x: error %v; the library's is %v", name, wire, gotErr, wantErr)
	case wantErr == nil:
		same := []cmp.Option{cmp.AllowUnexported(message{}, descriptor{}, limit{}), cmpopts.IgnoreFields(message{}, "text"), cmpopts.EquateEmpty()}
		if diff := cmp.Diff(messageFrom(&m), &got, same...); diff != "" {
			t.Errorf("%s, %x (-library +ours)\n%s", name, wire, diff)
		}
	}
	return got, gotErr == nil
}

// requestOf returns a request with this number of descriptors, and of entries in each.
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

// wires returns requests in wire form, ordinary and unusual ones.
func wires(t testing.TB) map[string][]byte {
	own := requestOf(2, 1)
	own.HitsAddend = 1 << 31
	own.Descriptors[0].IsNegativeHits, own.Descriptors[0].HitsAddend = true, wrapperspb.UInt64(1<<63)
	own.Descriptors[1].HitsAddend = wrapperspb.UInt64(0)
	own.Descriptors[1].Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 3, Unit: -1, UnitMultiplier: wrapperspb.UInt32(7)}
	plain := wiretest.Marshal(t, requestOf(1, 1))
	return map[string][]byte{
		"one descriptor":               plain,
		"four descriptors":             wiretest.Marshal(t, requestOf(4, 2)),
		"no entries":                   wiretest.Marshal(t, requestOf(3, 0)),
		"nothing":                      nil,
		"as many as are answered":      wiretest.Marshal(t, requestOf(maxDescriptors, 1)),
		"more":                         wiretest.Marshal(t, requestOf(maxDescriptors+1, 1)),
		"of all fields":                wiretest.Marshal(t, own),
		"a field of the future":        append(bytes.Clone(plain), 0xf8, 0x07, 0x01),
		"a group":                      append(bytes.Clone(plain), 0x33, 0x08, 0x01, 0x34),
		"a group without an end":       append(bytes.Clone(plain), 0x33, 0x08, 0x01),
		"an end without a group":       append(bytes.Clone(plain), 0x34),
		"a domain that is a number":    {0x08, 0x05},
		"hits that are 64 bits":        {0x19, 1, 2, 3, 4, 5, 6, 7, 8},
		"a domain twice":               append(bytes.Clone(plain), 0x0a, 1, 'x'),
		"a key twice, and a value":     {0x12, 0x0b, 0x0a, 0x09, 0x0a, 1, 'a', 0x12, 1, 'b', 0x0a, 1, 'c'},
		"a limit in two parts":         {0x12, 0x08, 0x12, 0x02, 0x08, 0x03, 0x12, 0x02, 0x10, 0x02},
		"a multiplier in two parts":    {0x12, 0x08, 0x12, 0x06, 0x1a, 0x02, 0x08, 0x05, 0x1a, 0x00},
		"hits of nothing":              {0x12, 0x02, 0x1a, 0x00},
		"a long number":                {0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
		"a number without an end":      {0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
		"the field 0":                  {0x02, 0x01, 'x'},
		"a field beyond all":           {0x80, 0x80, 0x80, 0x80, 0x10, 0x01},
		"a kind that is none":          {0x0f, 0x01},
		"cut off":                      plain[:9],
		"cut off in an entry":          {0x12, 0x03, 0x0a, 0x02, 0x0a},
		"a length beyond the end":      {0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
		"a length beyond its message":  {0x12, 0x04, 0x0a, 0x09, 0x0a, 0x01, 'a', 0x12, 1, 'b', 0x0a},
		"a tag of more bytes than one": {0x8a, 0x00, 1, 'x'},
	}
}

func TestReaderAgreesWithTheLibrary(t *testing.T) {
	for name, wire := range wires(t) {
		compare(t, name, wire)
	}
}

func TestStringsMayHoldAnyBytes(t *testing.T) {
	wire := bytes.ReplaceAll(wiretest.Marshal(t, &rlsv3.RateLimitRequest{Domain: "BYTES", Descriptors: []*ratelimitv3.RateLimitDescriptor{{
		Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "BYTES", Value: "BYTES"}},
	}}}), []byte("BYTES"), []byte("\xffa\xc0\xafz"))
	got, ok := compare(t, "no UTF-8", wire)
	const want = "\xffa\xc0\xafz"
	if !ok || got.domain != want || got.entries[0] != (mapping.Entry{Key: want, Value: want}) {
		t.Errorf("read %q of %q", got.entries, got.domain)
	}
}

// TestNoFieldIsMissing fails when a message gains a field that is not read.
func TestNoFieldIsMissing(t *testing.T) {
	for m, want := range map[proto.Message]int{
		new(rlsv3.RateLimitRequest): 3, new(ratelimitv3.RateLimitDescriptor): 4, new(ratelimitv3.RateLimitDescriptor_Entry): 2,
		new(ratelimitv3.RateLimitDescriptor_RateLimitOverride): 3, new(wrapperspb.UInt32Value): 1, new(wrapperspb.UInt64Value): 1,
	} {
		d := m.ProtoReflect().Descriptor()
		if got := d.Fields().Len(); got != want {
			t.Errorf("%s has %d fields; the door knows %d: read the new ones too", d.FullName(), got, want)
		}
	}
}

// FuzzRead compares the reader with the library on arbitrary input.
func FuzzRead(f *testing.F) {
	for _, wire := range wires(f) {
		if len(wire) < 1000 {
			f.Add(wire)
		}
	}
	f.Fuzz(func(t *testing.T, wire []byte) { compare(t, "fuzz", wire) })
}

func BenchmarkRead(b *testing.B) {
	for _, n := range []int{1, 4} {
		wire := wiretest.Marshal(b, requestOf(n, 1))
		b.Run(fmt.Sprint(n, " descriptors/ours"), func(b *testing.B) {
			var a message
			b.ReportAllocs()
			for b.Loop() {
				if err := a.read(wire); err != nil {
					b.Fatal(err)
				}
				a.reset()
			}
		})
		b.Run(fmt.Sprint(n, " descriptors/library"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := proto.Unmarshal(wire, new(rlsv3.RateLimitRequest)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
