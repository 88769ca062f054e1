package ratelimit_test

import (
	"context"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/ratelimit"
)

const blacklist = `
[rules]
rule : [direct] [uid=black] [time=1; count=0;] [result=2; return=100]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// TestModes: a door in mode observe or off answers OK with a status per descriptor to
// calls that it would refuse or that cannot be decided.
func TestModes(t *testing.T) {
	for mode, word := range map[engine.Mode]string{engine.ModeObserve: "observed-deny", engine.ModeOff: "off"} {
		modes := new(engine.Modes)
		modes.Set(map[string]engine.Mode{"ratelimit": mode})
		d := open(t, blacklist, func(o *ratelimit.Options) {
			o.Engine = engine.New(parse(t, blacklist), wiring.CountIn(newClock().store()), engine.WithModes(modes))
		})
		for name, c := range map[string]struct {
			call     string
			statuses int
		}{
			"a refusal":       {`{"domain":"lab","descriptors":[{"entries":[{"key":"uid","value":"black"}]}]}`, 1},
			"no domain":       {`{"descriptors":[{"entries":[{"key":"uid","value":"black"}]},{"entries":[{"key":"uid","value":"white"}]}]}`, 2},
			"no descriptors":  {`{"domain":"lab"}`, 1},
			"an unknown unit": {`{"domain":"lab","descriptors":[{"entries":[{"key":"uid","value":"a"}],"limit":{"requests_per_unit":1}}]}`, 1},
			"absurd hits":     {`{"domain":"lab","descriptors":[{"entries":[{"key":"uid","value":"a"}],"hits_addend":"1000000000000001"}]}`, 1},
		} {
			reply, err := d.ShouldRateLimit(context.Background(), request(t, c.call))
			if err != nil || reply.OverallCode != ok || len(reply.Statuses) != c.statuses {
				t.Fatalf("%s, %s: %v, %v; want OK and %d statuses", mode, name, reply, err, c.statuses)
			}
			for _, s := range reply.Statuses {
				if s.Code != ok {
					t.Errorf("%s, %s: a status is %v", mode, name, s.Code)
				}
			}
			if got := verdictOf(reply); got != word {
				t.Errorf("%s, %s: the metadata has %q; want %q", mode, name, got, word)
			}
		}
	}
}

func verdictOf(reply *rlsv3.RateLimitResponse) string {
	return reply.DynamicMetadata.GetFields()["verdict"].GetStringValue()
}
