package envoylimits

import (
	configv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
)

// FromProto returns the configuration in a message of xDS. share_threshold and
// value_to_metric have no field there.
func FromProto(m *configv3.RateLimitConfig) *Config {
	return &Config{Name: m.GetName(), Domain: m.GetDomain(), Descriptors: descriptorsFrom(m.GetDescriptors())}
}

func descriptorsFrom(list []*configv3.RateLimitDescriptor) []Descriptor {
	descriptors := make([]Descriptor, len(list))
	for i, m := range list {
		d := &descriptors[i]
		*d = Descriptor{
			Key: m.GetKey(), Value: m.GetValue(), Descriptors: descriptorsFrom(m.GetDescriptors()),
			Shadow: m.GetShadowMode(), Quota: m.GetQuotaMode(), Detailed: m.GetDetailedMetric(),
		}
		if m.GetMetadata() != nil {
			d.Metadata = m.GetMetadata().AsMap()
		}
		if p := m.GetRateLimit(); p != nil {
			d.Policy = &Policy{Unit: p.GetUnit().String(), Requests: p.GetRequestsPerUnit(), Unlimited: p.GetUnlimited(), Name: p.GetName()}
			for _, r := range p.GetReplaces() {
				d.Policy.Replaces = append(d.Policy.Replaces, r.GetName())
			}
		}
	}
	return descriptors
}
