package wire_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/koalagate/koalagate/internal/wire"
)

// Fields are as the library appends them, whether tags, numbers and lengths have one byte or more.
func TestFieldsAreAsTheLibraryAppendsThem(t *testing.T) {
	for _, field := range []protowire.Number{1, 15, 16, 2047, 2048, protowire.MaxValidNumber} {
		for _, n := range []uint64{1, 127, 128, 300, math.MaxUint64} {
			want := protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.VarintType), n)
			if got := wire.AppendNumber(nil, field, n); !bytes.Equal(got, want) {
				t.Errorf("field %d, number %d: % x; want % x", field, n, got, want)
			}
		}
		for _, length := range []int{0, 1, 127, 128, 16_383, 16_384} {
			text := strings.Repeat("x", length)
			want := protowire.AppendString(protowire.AppendTag([]byte("before"), field, protowire.BytesType), text)
			message, from := wire.Begin([]byte("before"), field)
			ways := map[string][]byte{
				"bytes":   wire.AppendBytes([]byte("before"), field, []byte(text)),
				"message": wire.End(append(message, text...), from),
			}
			if length > 0 {
				ways["text"] = wire.AppendText([]byte("before"), field, text)
			}
			for name, got := range ways {
				if !bytes.Equal(got, want) {
					t.Errorf("field %d, %s of %d bytes: %d bytes that begin with % .20x; want %d, % .20x", field, name, length, len(got), got, len(want), want)
				}
			}
			fields := wire.Read(want[len("before"):])
			if !fields.Next() || string(fields.Content()) != text || fields.Tag != protowire.EncodeTag(field, protowire.BytesType) || fields.Next() {
				t.Errorf("field %d of %d bytes is read as %+v", field, length, fields)
			}
		}
	}
}
