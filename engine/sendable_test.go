package engine_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/rules"
)

func TestSendableHeadersCannotBreakAResponse(t *testing.T) {
	type list = []rules.Header
	for name, test := range map[string]struct{ in, want list }{
		"ordinary ones stay":               {list{{"Retry-After", "7"}, {"X-A", "b\tc é"}}, list{{"Retry-After", "7"}, {"X-A", "b\tc é"}}},
		"a name stands once, as said last": {list{{"X-A", "1"}, {"X-B", "2"}, {"x-a", "3"}}, list{{"X-B", "2"}, {"x-a", "3"}}},
		"a line end is a blank":            {list{{"X-A", "b\r\nSet-Cookie: c"}}, list{{"X-A", "b  Set-Cookie: c"}}},
		"a NUL is a blank":                 {list{{"X-A", "b\x00c"}}, list{{"X-A", "b c"}}},
		"what is no text is a blank":       {list{{"X-A", "b\xffc"}}, list{{"X-A", "b c"}}},
		"pseudo headers go":                {list{{":status", "200"}, {"X-A", "b"}}, list{{"X-A", "b"}}},
		"names that are none go":           {list{{"", "a"}, {"X A", "b"}, {"X\n", "c"}}, list{}},
		"framing goes":                     {list{{"Content-Length", "0"}, {"transfer-encoding", "chunked"}, {"Connection", "close"}}, list{}},
		"nothing stays nothing":            {nil, list{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := append(list{}, engine.Sendable(test.in)...)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
