package wire_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/koalagate/koalagate/internal/wire"
)

func TestFactsFormAStruct(t *testing.T) {
	numbers := []int64{0, -1, 1 << 40}
	b := wire.AppendNumberFact(nil, "limit", 4)
	b = wire.AppendNumberFact(b, "none", 0)
	b = wire.AppendNumberFact(b, "less", -90)
	b = wire.AppendTextFact(b, "verdict", "deny")
	b = wire.AppendTextFact(b, "", "")
	b = wire.AppendTextFact(b, "long", strings.Repeat("ü", 20_000))
	b = wire.AppendTrueFact(b, "degraded")
	b = wire.AppendNumbersFact(b, "shadow", numbers)
	b = wire.AppendNumbersFact(b, "nobody", nil)
	b = wire.AppendTextsFact(b, "marks", []string{"", "bot", strings.Repeat("ü", 100)})
	want, err := structpb.NewStruct(map[string]any{
		"limit": 4, "none": 0, "less": -90, "verdict": "deny", "": "", "long": strings.Repeat("ü", 20_000), "degraded": true,
		"shadow": []any{0, -1, 1 << 40}, "nobody": []any{},
		"marks": []any{"", "bot", strings.Repeat("ü", 100)},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := new(structpb.Struct)
	if err := proto.Unmarshal(b, got); err != nil {
		t.Fatalf("%x cannot be read: %v", b, err)
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestMessageLengthsAreCorrect uses nested messages whose lengths take one, two and
// three bytes.
func TestMessageLengthsAreCorrect(t *testing.T) {
	for _, n := range []int{0, 1, 119, 120, 121, 122, 123, 124, 125, 126, 127, 128, 129, 16379, 16380, 16381, 16382, 16383, 16384, 70_000} {
		text := strings.Repeat("x", n)
		b, list := wire.Begin([]byte("before"), 1)
		b = wire.AppendBytes(b, 3, []byte(text)) // a Value that is a text
		b = wire.End(b, list)
		b, list = wire.Begin(b, 1)
		b, inner := wire.Begin(b, 6) // one that is a list
		b, of := wire.Begin(b, 1)
		b = wire.End(wire.AppendBytes(b, 3, []byte(text)), of)
		b = wire.End(wire.End(b, inner), list)
		got := new(structpb.ListValue)
		if err := proto.Unmarshal(b[len("before"):], got); err != nil {
			t.Fatalf("%d bytes cannot be read: %v", n, err)
		}
		want := &structpb.ListValue{Values: []*structpb.Value{
			structpb.NewStringValue(text), structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewStringValue(text)}}),
		}}
		if !proto.Equal(want, got) || len(b) != len("before")+proto.Size(want) {
			t.Errorf("%d bytes: %d in all; want %d, or the message differs", n, len(b)-len("before"), proto.Size(want))
		}
	}
}

func TestZeroValuesAreOmitted(t *testing.T) {
	if b := wire.AppendText(wire.AppendNumber(nil, 1, 0), 2, ""); len(b) != 0 {
		t.Errorf("got %x; want nothing", b)
	}
	for _, n := range []uint64{1, 127, 128, 1<<64 - 1} {
		want, err := proto.Marshal(wrapperspb.UInt64(n))
		if got := wire.AppendNumber(nil, 1, n); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d is %x, %v; want %x", n, got, err, want)
		}
	}
}
