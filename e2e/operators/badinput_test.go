package operators_test

import (
	"strings"
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// Invalid requests are refused in the way of each door, and neither pass nor count.
// Unusual but valid requests are decided.
func TestBadInputAtEveryDoor(t *testing.T) {
	h := rig.NewFixture(t)
	k := h.Koalagate("--rules", h.File("rules.conf", rig.OneCounter))
	conn := rig.Must(grpc.NewClient(k.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	checks := authv3.NewAuthorizationClient(conn)
	limits := rlsv3.NewRateLimitServiceClient(conn)

	long := "X-Long: " + strings.Repeat("x", 100_000)
	for _, c := range []struct {
		name    string
		path    string
		headers []string
		want    map[string]int // by door; "" for all other doors
	}{
		{"an ordinary path", "/a", nil, map[string]int{"": 200}},
		{"dot segments", "/../a/./b/..", nil, map[string]int{"": 200}},
		{"an encoded slash", "/a%2Fb", nil, map[string]int{"": 200}},
		{"overlong UTF-8", "/%c0%af/%e0%80%af", nil, map[string]int{"": 200}},
		{"no UTF-8", "/%ff%fe", nil, map[string]int{"": 200}},
		{"a NUL", "/a%00b", nil, map[string]int{"": 400, "auth-request": 403}},
		{"a broken escape", "/a%zz", nil, map[string]int{"": 400, "auth-request": 403}},
		{"a cut escape", "/a%2", nil, map[string]int{"": 400, "auth-request": 403}},
		{"100 kB of headers", "/a", []string{long}, map[string]int{"": 431, "extauthz": 200}},
	} {
		for _, door := range []string{"auth-request", "forward-auth", "accel", "ext-authz", "extauthz"} {
			before := rig.HitsOf(t, k)
			var got int
			if door == "extauthz" {
				got = rig.CheckStatus(t, checks, rig.HTTPCheck(c.path, c.headers))
			} else {
				got = rig.SendCheck(t, k.HTTP, door, c.path, c.headers)
			}
			want, named := c.want[door]
			if !named {
				want = c.want[""]
			}
			if got != want {
				t.Errorf("%s at %s: %d; want %d", c.name, door, got, want)
			}
			if counted := rig.HitsOf(t, k) != before; counted != (want == 200) {
				t.Errorf("%s at %s: counted: %v", c.name, door, counted)
			}
		}
	}

	t.Run("a check without http", func(t *testing.T) {
		for name, check := range map[string]*authv3.CheckRequest{"empty": {}, "no request": {Attributes: &authv3.AttributeContext{}}} {
			before := rig.HitsOf(t, k)
			if got := rig.CheckStatus(t, checks, check); got != 200 || rig.HitsOf(t, k) != before {
				t.Errorf("%s: %d, counted %s, before %s; want the status of entry 0, and no count", name, got, rig.HitsOf(t, k), before)
			}
		}
	})
	t.Run("calls of the rate limit service", func(t *testing.T) {
		entry := &commonv3.RateLimitDescriptor{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "k", Value: "v"}}}
		with := func(d *commonv3.RateLimitDescriptor) []*commonv3.RateLimitDescriptor {
			return []*commonv3.RateLimitDescriptor{entry, d}
		}
		override := func(unit typev3.RateLimitUnit, multiplier uint32) *commonv3.RateLimitDescriptor {
			return &commonv3.RateLimitDescriptor{Limit: &commonv3.RateLimitDescriptor_RateLimitOverride{
				RequestsPerUnit: 1, Unit: unit, UnitMultiplier: wrapperspb.UInt32(multiplier),
			}}
		}
		for name, r := range map[string]*rlsv3.RateLimitRequest{
			"no domain":                {Descriptors: with(entry)},
			"no descriptors":           {Domain: "shop"},
			"unit UNKNOWN":             {Domain: "shop", Descriptors: with(override(typev3.RateLimitUnit_UNKNOWN, 1))},
			"an unknown unit":          {Domain: "shop", Descriptors: with(override(99, 1))},
			"a multiplier of 0":        {Domain: "shop", Descriptors: with(override(typev3.RateLimitUnit_SECOND, 0))},
			"a window beyond 366 days": {Domain: "shop", Descriptors: with(override(typev3.RateLimitUnit_YEAR, 2))},
			"the largest multiplier":   {Domain: "shop", Descriptors: with(override(typev3.RateLimitUnit_YEAR, 1<<32-1))},
		} {
			before := rig.HitsOf(t, k)
			_, err := rig.ShouldRateLimit(limits, r)
			if status.Code(err) != codes.InvalidArgument || rig.HitsOf(t, k) != before {
				t.Errorf("%s: %v, counted %s, before %s; want InvalidArgument and no count", name, err, rig.HitsOf(t, k), before)
			}
		}
		for name, r := range map[string]*rlsv3.RateLimitRequest{
			"hits of 2^32-1":           {Domain: "shop", HitsAddend: 1<<32 - 1, Descriptors: with(entry)},
			"a descriptor's hits":      {Domain: "shop", Descriptors: with(&commonv3.RateLimitDescriptor{HitsAddend: wrapperspb.UInt64(1_000_000_000_000_001)})},
			"a descriptor's most hits": {Domain: "shop", Descriptors: with(&commonv3.RateLimitDescriptor{HitsAddend: wrapperspb.UInt64(1<<64 - 1)})},
			"a refund of too many":     {Domain: "shop", Descriptors: with(&commonv3.RateLimitDescriptor{HitsAddend: wrapperspb.UInt64(1 << 63), IsNegativeHits: true})},
		} {
			before := rig.HitsOf(t, k)
			reply, err := rig.ShouldRateLimit(limits, r)
			if err != nil || reply.GetOverallCode() != rlsv3.RateLimitResponse_OVER_LIMIT || rig.HitsOf(t, k) != before {
				t.Errorf("%s: %v, %v, counted %s, before %s; want OVER_LIMIT and no count", name, reply, err, rig.HitsOf(t, k), before)
			}
		}
		before := rig.HitsOf(t, k)
		odd, err := rig.ShouldRateLimit(limits, &rlsv3.RateLimitRequest{Domain: "shop", Descriptors: []*commonv3.RateLimitDescriptor{{}, {}, entry, entry}})
		if err != nil || len(odd.GetStatuses()) != 4 || rig.HitsOf(t, k) == before {
			t.Errorf("descriptors without entries, and duplicates: %v, %v; want four statuses", odd, err)
		}
	})
	if !rig.Readyz(t, k).Ready {
		t.Error("the service is no longer ready")
	}
}
