package door_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/rules"
)

func TestSendableHeadersCannotBreakAResponse(t *testing.T) {
	type list = []rules.Header
	for name, test := range map[string]struct{ in, want list }{
		"valid headers stay":            {list{{Name: "Retry-After", Value: "7"}, {Name: "X-A", Value: "b\tc é"}}, list{{Name: "Retry-After", Value: "7"}, {Name: "X-A", Value: "b\tc é"}}},
		"the last of equal names stays": {list{{Name: "X-A", Value: "1"}, {Name: "X-B", Value: "2"}, {Name: "x-a", Value: "3"}}, list{{Name: "X-B", Value: "2"}, {Name: "x-a", Value: "3"}}},
		"line ends become blanks":       {list{{Name: "X-A", Value: "b\r\nSet-Cookie: c"}}, list{{Name: "X-A", Value: "b  Set-Cookie: c"}}},
		"NULs become blanks":            {list{{Name: "X-A", Value: "b\x00c"}}, list{{Name: "X-A", Value: "b c"}}},
		"invalid UTF-8 becomes a blank": {list{{Name: "X-A", Value: "b\xffc"}}, list{{Name: "X-A", Value: "b c"}}},
		"pseudo-headers are removed":    {list{{Name: ":status", Value: "200"}, {Name: "X-A", Value: "b"}}, list{{Name: "X-A", Value: "b"}}},
		"invalid names are removed":     {list{{Name: "", Value: "a"}, {Name: "X A", Value: "b"}, {Name: "X\n", Value: "c"}}, list{}},
		"framing headers are removed":   {list{{Name: "Content-Length", Value: "0"}, {Name: "transfer-encoding", Value: "chunked"}, {Name: "Connection", Value: "close"}}, list{}},
		"no headers":                    {nil, list{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := append(list{}, door.Sendable(test.in)...)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
