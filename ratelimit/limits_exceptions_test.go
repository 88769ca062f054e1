package ratelimit_test

import (
	"fmt"
	"math"
	"strconv"
	"testing"

	extv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/dropin/imported"
	"github.com/koalagate/koalagate/internal/dropin/statistics"
	"github.com/koalagate/koalagate/internal/envoylimits"
)

// stating returns a descriptor that states a limit per hour itself.
func stating(key string, requests uint32) *extv3.RateLimitDescriptor {
	d := oneEntry(key)
	d.Limit = &extv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: requests, Unit: typev3.RateLimitUnit_HOUR}
	return d
}

// except makes an exception of the limit with a path for the value x of a key.
func (i *importedDoor) except(to *engine.Exceptions, path, key string, x engine.Exception) {
	i.t.Helper()
	m, _, err := i.limits.Identify(path, map[string]string{key: "x"})
	if err != nil {
		i.t.Fatal(err)
	}
	x.ID, x.Match, x.Until = "x", m, 1<<45
	to.Set([]engine.Exception{x})
}

// A limit that a descriptor states counts in the window of the configured limit, whose exception
// must not reach it.
func TestExceptionsDoNotConcernLimitsThatDescriptorsState(t *testing.T) {
	for _, c := range []struct {
		name       string
		x          engine.Exception
		configured rlsv3.RateLimitResponse_Code // of the third call of the limit of two
	}{
		{"allow", engine.Exception{Kind: engine.ExceptAllow}, ok},
		{"deny", engine.Exception{Kind: engine.ExceptDeny}, overLimit},
		{"count", engine.Exception{Kind: engine.ExceptCount, Count: 100}, ok},
	} {
		t.Run(c.name, func(t *testing.T) {
			exceptions := new(engine.Exceptions)
			i := importLimits(t, func(o *limitOptions, _ *clock) { o.Exceptions = exceptions })
			i.except(exceptions, "d.two", "two", c.x)
			i.want(ok, []uint32{0}, stating("two", 1))
			i.want(overLimit, []uint32{0}, stating("two", 1))
			i.want(c.configured, nil, oneEntry("two"))
		})
	}
}

// What answers and statistics say of a limit is what the exception makes of it.
func TestAnswersAndStatisticsFollowExceptionsOfTheCount(t *testing.T) {
	const calls = 20
	for _, windows := range []imported.Windows{imported.Fixed, imported.Opening, imported.Sliding} {
		for _, c := range []struct {
			count            int64
			limit, remaining uint32 // of the first answer
			within, over     uint64 // of all calls
		}{
			{3, 3, 2, 3, 17},
			{100, 100, 99, 20, 0},
			{math.MaxUint32 + 1, math.MaxUint32, math.MaxUint32, 20, 0},
		} {
			t.Run(fmt.Sprint(windows, " ", c.count), func(t *testing.T) {
				exceptions, counted := new(engine.Exceptions), statistics.New(0.8)
				i := importLimits(t, func(o *limitOptions, _ *clock) {
					o.Exceptions, o.Statistics, o.Windows = exceptions, counted, windows
					o.Headers = &imported.Headers{Limit: "Limit", Remaining: "Remaining", Reset: "Reset"}
				})
				i.except(exceptions, "d.ten", "ten", engine.Exception{Kind: engine.ExceptCount, Count: c.count})
				for n := range calls {
					answer, err := i.try(oneEntry("ten"))
					if err != nil {
						t.Fatal(err)
					}
					status, headers := answer.GetStatuses()[0], answer.GetResponseHeadersToAdd()
					if n == 0 && status.GetLimitRemaining() != c.remaining {
						t.Errorf("%d remain; want %d", status.GetLimitRemaining(), c.remaining)
					}
					if limit := status.GetCurrentLimit().GetRequestsPerUnit(); n > 0 && (limit != c.limit || headers[0].GetValue() != strconv.FormatUint(uint64(c.limit), 10)) {
						t.Errorf("the limit is %d, and in %v; want %d", limit, headers, c.limit)
					}
				}
				if look := i.look("ten"); look.Max != c.count {
					t.Errorf("the look says %d; want %d", look.Max, c.count)
				}
				counts := countsOf(t, counted)
				if counts["d.ten.total_hits"] != calls || counts["d.ten.within_limit"] != c.within || counts["d.ten.over_limit"] != c.over {
					t.Errorf("the statistics are %v; want %d within the limit, and %d over it", counts, c.within, c.over)
				}
			})
		}
	}
}

// Values that share a threshold have one counter, and so one exception: that of their pattern.
func TestExceptionsOfSharedThresholdsNameThePattern(t *testing.T) {
	config := &envoylimits.Config{Name: "c", Domain: "d", Descriptors: []envoylimits.Descriptor{
		{Key: "path", Value: "/api/*", Share: true, Policy: &envoylimits.Policy{Unit: "hour", Requests: 1}},
	}}
	set, err := envoylimits.Compile([]*envoylimits.Config{config}, false)
	if err != nil {
		t.Fatal(err)
	}
	exceptions := new(engine.Exceptions)
	i := importLimits(t, func(o *limitOptions, _ *clock) {
		o.Exceptions, o.Current = exceptions, func() *envoylimits.Set { return set }
	})
	if _, _, err := i.limits.Identify("d.path_/api/*", map[string]string{"path": "/api/health"}); err == nil {
		t.Error("an exception of one value is accepted, which would apply to all")
	}
	m, identity, err := i.limits.Identify("d.path_/api/*", nil)
	if err != nil || identity["path"] != "/api/*" {
		t.Fatalf("the identity is %v, %v; want the pattern", identity, err)
	}
	exceptions.Set([]engine.Exception{{ID: "x", Kind: engine.ExceptCount, Count: 3, Match: m, Until: 1 << 45}})
	for n, value := range []string{"/api/a", "/api/b", "/api/*"} {
		d := oneEntry("path")
		d.Entries[0].Value = value
		i.want(ok, []uint32{uint32(2 - n)}, d)
	}
}
