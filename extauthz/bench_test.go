package extauthz_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/extauthz"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/wire/wiretest"
	"github.com/koalagate/koalagate/internal/wiring"
)

// BenchmarkCheck measures one check from the request in wire form to the store in
// process and back to a reply in wire form, without gRPC's transport.
func BenchmarkCheck(b *testing.B) {
	for name, act := range map[string]string{"admitted": "vote", "refused": "post", "unmatched": "other", "direct": "black"} {
		b.Run(name, func(b *testing.B) {
			set := parse(b, strings.Replace(outcomes, "time=90; count=1;", "time=90; count=1000000000;", 1)) // act=vote
			door := wiretest.Open(extauthz.New(extauthz.Options{Engine: engine.New(set, wiring.CountIn(memory.New(memory.Options{})))}))
			checks := make([][]byte, 1024)
			for i := range checks {
				check := about(act, map[string]string{
					":authority": "shop.example", ":method": "GET", ":path": "/", ":scheme": "http", "accept": "*/*",
					"user-agent": "curl/7.88.1", "x-forwarded-for": "192.0.2.2", "x-forwarded-proto": "http",
					"x-request-id": "21122033-bafb-4964-838a-9b60fba400f1",
				})
				if act != "post" { // one caller alone is refused from the second on
					check.Attributes.ContextExtensions["uid"] = strconv.Itoa(i)
				}
				checks[i] = wiretest.Marshal(b, check)
			}
			ctx := context.Background()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := door.Call(ctx, checks[i%len(checks)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
