package ratelimit_test

import (
	"context"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/wire/wiretest"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/ratelimit"
)

// FuzzShouldRateLimit sends arbitrary RateLimitRequests: each must be answered with a
// decision that Envoy cannot misinterpret, or rejected as invalid.
func FuzzShouldRateLimit(f *testing.F) {
	for _, seed := range []string{
		`{}`,
		`{"domain": "lab", "descriptors": [{}]}`,
		`{"domain": "lab", "hits_addend": 4294967295, "descriptors": [{}]}`,
		`{"domain": "lab", "descriptors": [` + one("uid", "ann") + `, ` + one("uid", "ann", `"is_negative_hits": true`) + `]}`,
		`{"domain": "lab", "descriptors": [` + operate("charge", "uid", "ann", 3) + `, ` + one("uid", "ann") + `, ` + operate("refund", "uid", "ann", 3) + `]}`,
		`{"domain": "lab", "descriptors": [` + operate("charge", "uid", "ann", 3) + `]}`,
		`{"domain": "lab", "descriptors": [` + one("koala.op", "other") + `, ` + one("koala.hits", "2e+09") + `]}`,
		`{"domain": "lab", "descriptors": [` + one("act", "black") + `, ` + one("dear", "999999999", `"hits_addend": "3"`) + `]}`,
		`{"domain": "other", "descriptors": [` + one("day", "a\nb", `"limit": {"requests_per_unit": 1, "unit": "YEAR"}`) + `]}`,
		`{"domain": "lab", "descriptors": [` + one("x", "y", `"limit": {"unit": 77, "unit_multiplier": 4294967295}`) + `]}`,
	} {
		f.Add(wiretest.Marshal(f, request(f, seed)))
	}
	door := wiretest.Open(ratelimit.New(ratelimit.Options{Engine: engine.New(parse(f, outcomes), wiring.CountIn(newClock().store()))}))
	f.Fuzz(func(t *testing.T, wire []byte) {
		r, reply := new(rlsv3.RateLimitRequest), new(rlsv3.RateLimitResponse)
		if proto.Unmarshal(wire, r) != nil {
			return // grpc refuses it before the door
		}
		answered, err := door.Call(context.Background(), wire)
		if err != nil {
			if answered != nil || status.Code(err) != codes.InvalidArgument {
				t.Fatalf("got %x, %v; want a decision or InvalidArgument", answered, err)
			}
			return
		}
		if err := proto.Unmarshal(answered, reply); err != nil {
			t.Fatalf("%x cannot be read: %v", answered, err)
		}
		if want := proto.Size(reply); len(answered) != want {
			t.Fatalf("%x takes %d bytes; the library's would take %d", answered, len(answered), want)
		}
		if fault := malformed(r, reply); fault != "" {
			t.Fatalf("%s: %v", fault, reply)
		}
	})
}
