package ratelimit_test

import (
	"strconv"
	"testing"

	extv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/koalagate/koalagate/engine"
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
