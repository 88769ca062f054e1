package xds

import (
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	configv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/koalagate/koalagate/internal/envoylimits"
)

// FuzzResponse compares the reader of responses with the library: both read the same
// envelope, and what the library cannot read is refused.
func FuzzResponse(f *testing.F) {
	packed, err := anypb.New(&configv3.RateLimitConfig{Name: "n", Domain: "d", Descriptors: []*configv3.RateLimitDescriptor{{Key: "k"}}})
	if err != nil {
		f.Fatal(err)
	}
	for _, r := range []*discoveryv3.DiscoveryResponse{
		{}, {VersionInfo: "1", Nonce: "n", TypeUrl: typeURL, Resources: []*anypb.Any{packed, {}}}, {TypeUrl: "x", Nonce: strings.Repeat("n", maxName+1)},
	} {
		text, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		want := new(discoveryv3.DiscoveryResponse)
		if proto.Unmarshal(message, want) != nil {
			if got, err := readResponse(message); err == nil {
				_, _ = got.configs()
			}
			return
		}
		got, err := readResponse(message)
		if err != nil {
			if len(want.GetVersionInfo()) <= maxName && len(want.GetNonce()) <= maxName && !strings.Contains(err.Error(), "version or nonce") {
				t.Fatalf("%x: %v", message, err)
			}
			return
		}
		if got.version != want.GetVersionInfo() || got.nonce != want.GetNonce() || len(got.resources) != len(want.GetResources()) {
			t.Fatalf("%x is %+v; want %v", message, got, want)
		}
		configs, err := got.configs()
		if err != nil {
			return
		}
		for i, r := range want.GetResources() {
			m := new(configv3.RateLimitConfig)
			if err := r.UnmarshalTo(m); err != nil || m.GetDomain() != configs[i].Domain || len(m.GetDescriptors()) != len(configs[i].Descriptors) {
				t.Fatalf("resource %d of %x is %+v; want %v, %v", i, message, configs[i], m, err)
			}
		}
		_, _ = envoylimits.Compile(configs, true)
	})
}
