package operators_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
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

// Of 400 concurrent calls over two instances exactly the limit is OK, and a second
// descriptor is charged only for these.
//
// This also applies to the released service, with the default Redis budget. But then
// the result depends on how many concurrent calls the machine can handle, so only
// `make verify` tests it.
func TestFourHundredCallsAtOnce(t *testing.T) {
	t.Run("with race detector", func(t *testing.T) {
		h := rig.NewFixture(t)
		fourHundred(t, h.Pair(h.File("rules.conf", ratelimitRules)))
	})
	if !*long {
		return
	}
	t.Run("as released", func(t *testing.T) {
		h := rig.NewFixture(t)
		released := h.Released()
		args := []string{"--rules", h.File("rules.conf", ratelimitRules), "--redis", h.Redis().URL()}
		fourHundred(t, []*e2e.Koalagate{rig.Must(h.Stage.Koalagate(released, nil, args...))(t), rig.Must(h.Stage.Koalagate(released, nil, args...))(t)})
	})
}

func fourHundred(t *testing.T, instances []*e2e.Koalagate) {
	t.Helper()
	clients := []rlsv3.RateLimitServiceClient{rig.RateLimiter(t, instances[0]), rig.RateLimiter(t, instances[1])}

	const limit, calls, rounds = 10, 400, 10
	for round := range rounds {
		user, tenant := fmt.Sprintf("user=u%d", round), fmt.Sprintf("tenant=t%d", round)
		var ok, over atomic.Int64
		rig.Concurrently(calls, func(i int) {
			r, err := rig.ShouldRateLimit(clients[i%2], rig.Descriptors(tenant, user))
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
	r, err := rig.ShouldRateLimit(c, rig.Descriptors(pair))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Statuses) != 1 || r.Statuses[0].CurrentLimit == nil {
		t.Fatalf("%s: %v; want one status with its limit", pair, r)
	}
	return r.Statuses[0].LimitRemaining
}
