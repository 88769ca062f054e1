package ratelimit_test

import (
	"testing"

	extv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/koalagate/koalagate/engine"
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
