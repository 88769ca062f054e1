package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/koalagate/koalagate/e2e"
)

const ratelimitRules = `
[rules]
rule : [count] [domain=shop; user=+]   [time=3600; count=10;]  [result=2; return=201]
rule : [count] [domain=shop; tenant=+] [time=3600; count=1000;] [result=2; return=202]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

func rateLimiter(t *testing.T, k *e2e.Koalagate) rlsv3.RateLimitServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(k.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return rlsv3.NewRateLimitServiceClient(conn)
}

// descriptors returns a request with one descriptor per `key=value`.
func descriptors(pairs ...string) *rlsv3.RateLimitRequest {
	r := &rlsv3.RateLimitRequest{Domain: "shop"}
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		r.Descriptors = append(r.Descriptors, &commonv3.RateLimitDescriptor{
			Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: key, Value: value}},
		})
	}
	return r
}

func shouldRateLimit(c rlsv3.RateLimitServiceClient, r *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return c.ShouldRateLimit(ctx, r)
}

// Of 400 concurrent calls over two instances exactly the limit is OK, and a second
// descriptor is charged only for these.
//
// This also applies to the released service, with the default Redis budget. But then
// the result depends on how many concurrent calls the machine can handle, so only
// `make verify` tests it.
func TestFourHundredCallsAtOnce(t *testing.T) {
	t.Run("with race detector", func(t *testing.T) {
		h := newFixture(t)
		fourHundred(t, h.pair(h.file("rules.conf", ratelimitRules)))
	})
	if !*long {
		return
	}
	t.Run("as released", func(t *testing.T) {
		h := newFixture(t)
		released := h.released()
		args := []string{"--rules", h.file("rules.conf", ratelimitRules), "--redis", h.redis().URL()}
		fourHundred(t, []*e2e.Koalagate{must(h.stage.Koalagate(released, nil, args...))(t), must(h.stage.Koalagate(released, nil, args...))(t)})
	})
}

func fourHundred(t *testing.T, instances []*e2e.Koalagate) {
	t.Helper()
	clients := []rlsv3.RateLimitServiceClient{rateLimiter(t, instances[0]), rateLimiter(t, instances[1])}

	const limit, calls, rounds = 10, 400, 10
	for round := range rounds {
		user, tenant := fmt.Sprintf("user=u%d", round), fmt.Sprintf("tenant=t%d", round)
		var ok, over atomic.Int64
		concurrently(calls, func(i int) {
			r, err := shouldRateLimit(clients[i%2], descriptors(tenant, user))
			switch {
			case err != nil:
				t.Errorf("round %d: %v", round, err)
			case r.OverallCode == rlsv3.RateLimitResponse_OK:
				ok.Add(1)
			case r.OverallCode == rlsv3.RateLimitResponse_OVER_LIMIT:
				over.Add(1)
			}
		})
		if ok.Load() != limit || over.Load() != calls-limit {
			t.Errorf("round %d: %d OK and %d OVER_LIMIT, want %d and %d", round, ok.Load(), over.Load(), limit, calls-limit)
		}
		if left := remaining(t, clients[0], tenant); left != 1000-limit-1 {
			t.Errorf("round %d: the tenant has %d left, want %d, charged only for admitted calls", round, left, 1000-limit-1)
		}
	}
}

// remaining returns the remaining hits of a descriptor after one more hit.
func remaining(t *testing.T, c rlsv3.RateLimitServiceClient, pair string) uint32 {
	t.Helper()
	r, err := shouldRateLimit(c, descriptors(pair))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Statuses) != 1 || r.Statuses[0].CurrentLimit == nil {
		t.Fatalf("%s: %v; want one status with its limit", pair, r)
	}
	return r.Statuses[0].LimitRemaining
}
