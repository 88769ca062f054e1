package ratelimit_test

import (
	"strconv"
	"testing"

	extv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/ratelimit"
	"github.com/koalagate/koalagate/rules"
)

// A ban refuses descriptors that have its parameters, with or without a limit and also with limits
// in shadow mode, and counts nothing.
func TestBansAtImportedLimits(t *testing.T) {
	for _, shadow := range []bool{false, true} {
		exceptions := new(engine.Exceptions)
		i := importLimits(t, func(o *limitOptions, _ *clock) { o.Exceptions, o.Shadow = exceptions, shadow })
		exceptions.Set([]engine.Exception{
			{ID: "x", Kind: engine.ExceptBan, Until: 1 << 45, Params: []rules.Param{{Name: "domain", Value: "d"}, {Name: "two", Value: "x"}}},
			{ID: "y", Kind: engine.ExceptBan, Until: 1 << 45, Params: []rules.Param{{Name: "none", Value: "x"}}},
		})
		for _, descriptors := range [][]*extv3.RateLimitDescriptor{{oneEntry("two")}, {oneEntry("none")}, {oneEntry("ten"), oneEntry("two")}} {
			reply, err := i.try(descriptors...)
			if err != nil || reply.GetOverallCode() != overLimit {
				t.Errorf("shadow %v, %v: %v, %v; want it refused", shadow, descriptors, reply, err)
			}
			retry := int64(0)
			for _, h := range reply.GetResponseHeadersToAdd() {
				if h.GetKey() == "Retry-After" {
					retry, _ = strconv.ParseInt(h.GetValue(), 10, 64)
				}
			}
			if retry < 1 {
				t.Errorf("shadow %v, %v: no Retry-After in %v", shadow, descriptors, reply.GetResponseHeadersToAdd())
			}
		}
		exceptions.Set(nil)
		i.want(ok, []uint32{1}, oneEntry("two"))
	}
}

// Operations state what has happened: a ban of one descriptor neither refuses them nor drops those
// of the others, with rules beside the limits or without.
func TestBansLetOperationsCount(t *testing.T) {
	for _, besides := range []bool{false, true} {
		exceptions := new(engine.Exceptions)
		i := importLimits(t, func(o *limitOptions, c *clock) {
			if o.Exceptions, o.Settle = exceptions, true; besides {
				o.Rules = ratelimit.New(ratelimit.Options{Engine: engine.New(parse(t, besideLimits), wiring.CountIn(c.store()), engine.WithExceptions(exceptions))})
			}
		})
		i.want(ok, nil, weighing("ten", 3))
		exceptions.Set([]engine.Exception{{ID: "x", Kind: engine.ExceptBan, Until: 1 << 45, Params: []rules.Param{{Name: "two", Value: "x"}}}})
		i.want(ok, nil, with(weighing("two", 1), "koala.op", "charge"), with(weighing("ten", 5), "koala.op", "charge"))
		i.want(ok, nil, with(weighing("two", 1), "koala.op", "charge"), with(weighing("ten", 2), "koala.op", "refund"))
		i.want(overLimit, nil, with(weighing("ten", 1), "koala.op", "charge"), oneEntry("two"))
		exceptions.Set(nil)
		i.want(ok, []uint32{3, 0}, weighing("ten", 0), weighing("two", 0))
	}
}
