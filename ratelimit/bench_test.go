package ratelimit_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/wire/wiretest"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/ratelimit"
)

// BenchmarkShouldRateLimit measures one call from the request in wire form to the
// store in process and back to a reply in wire form, without gRPC's transport.
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
			door := wiretest.Open(ratelimit.New(ratelimit.Options{Engine: engine.New(set, wiring.CountIn(memory.New(memory.Options{})))}))
			callWith(b, door, test.descriptors)
		})
	}
}

// callWith measures calls with a number of descriptors, by many identities in turn.
func callWith(b *testing.B, door *wiretest.Front, descriptors int) {
	b.Helper()
	requests := make([][]byte, 1024)
	for i := range requests {
		var list []string
		for j := range descriptors {
			list = append(list, one("uid", fmt.Sprint(i, j)))
		}
		requests[i] = wiretest.Marshal(b, request(b, `{"domain": "lab", "descriptors": [`+strings.Join(list, ",")+`]}`))
	}
	ctx := context.Background()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := door.Call(ctx, requests[i%len(requests)]); err != nil {
			b.Fatal(err)
		}
	}
}
