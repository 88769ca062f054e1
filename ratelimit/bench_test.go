package ratelimit_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/ratelimit"
	"github.com/koalagate/koalagate/store"
)

// BenchmarkShouldRateLimit is one call from the handler to the store in
// process and back, without grpc.
func BenchmarkShouldRateLimit(b *testing.B) {
	for name, test := range map[string]struct {
		descriptors int
		limit       string
	}{
		"one admitted":  {1, "1000000000"},
		"four admitted": {4, "1000000000"},
		"one refused":   {1, "1"},
		"four refused":  {4, "1"},
	} {
		b.Run(name, func(b *testing.B) {
			set := parse(b, strings.ReplaceAll(outcomes, "count=2;", "count="+test.limit+";"))
			server := ratelimit.New(ratelimit.Options{Engine: engine.New(store.NewMemory(store.MemoryOptions{}), set)})
			requests := make([]*rlsv3.RateLimitRequest, 1024)
			for i := range requests {
				var list []string
				for j := range test.descriptors {
					list = append(list, one("uid", fmt.Sprint(i, j)))
				}
				requests[i] = request(b, `{"domain": "lab", "descriptors": [`+strings.Join(list, ",")+`]}`)
			}
			ctx := context.Background()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := server.ShouldRateLimit(ctx, requests[i%len(requests)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
