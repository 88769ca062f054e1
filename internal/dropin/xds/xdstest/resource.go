package xdstest

import (
	"strings"
	"testing"

	configv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/koalagate/koalagate/internal/envoylimits"
)

// Resource returns the resource of limits in YAML. It fails the test for limits that xDS
// cannot carry.
func Resource(t testing.TB, name, text string) *anypb.Any {
	t.Helper()
	c, err := envoylimits.Read(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	packed, err := anypb.New(&configv3.RateLimitConfig{Name: name, Domain: c.Domain, Descriptors: descriptors(t, c.Descriptors)})
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

func descriptors(t testing.TB, list []envoylimits.Descriptor) []*configv3.RateLimitDescriptor {
	t.Helper()
	var all []*configv3.RateLimitDescriptor
	for i := range list {
		d := &list[i]
		if d.Share || d.ValueToMetric {
			t.Fatalf("xDS has no share_threshold and no value_to_metric, which the descriptor %s has", d.Key)
		}
		m := &configv3.RateLimitDescriptor{
			Key: d.Key, Value: d.Value, Descriptors: descriptors(t, d.Descriptors),
			ShadowMode: d.Shadow, QuotaMode: d.Quota, DetailedMetric: d.Detailed,
		}
		if d.Metadata != nil {
			var err error
			if m.Metadata, err = structpb.NewStruct(d.Metadata); err != nil {
				t.Fatal(err)
			}
		}
		if p := d.Policy; p != nil {
			unit := configv3.RateLimitUnit(configv3.RateLimitUnit_value[strings.ToUpper(p.Unit)])
			m.RateLimit = &configv3.RateLimitPolicy{Unit: unit, RequestsPerUnit: p.Requests, Unlimited: p.Unlimited, Name: p.Name}
			for _, name := range p.Replaces {
				m.RateLimit.Replaces = append(m.RateLimit.Replaces, &configv3.RateLimitReplace{Name: name})
			}
		}
		all = append(all, m)
	}
	return all
}
