package ratelimit_test

import (
	"fmt"
	"testing"
	"time"

	extv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/dropin/imported"
	"github.com/koalagate/koalagate/internal/dropin/statistics"
	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/trial"
	"github.com/koalagate/koalagate/internal/whatif"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/ratelimit"
)

// A trial of the limits and rules in force counts every charge once, and decides as they do.
func TestChargesReachATrial(t *testing.T) {
	const rule = `[rules]
rule : [count] [domain=d; ten=+] [time=3600; count=%d] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`
	charge := func() *extv3.RateLimitDescriptor { return with(weighing("ten", 7), "koala.op", "charge") }
	for name, c := range map[string]struct {
		rules  bool   // decide beside the limits
		limit  uint32 // of requests
		count  int    // of the rule
		calls  [][]*extv3.RateLimitDescriptor
		totals whatif.Totals // of the calls and a last request of 3
	}{
		"alone":                {false, 10, 100, [][]*extv3.RateLimitDescriptor{{charge()}, {charge()}}, whatif.Totals{Requests: 1, RefusedInForce: 1, RefusedOnTrial: 1}},
		"beside a request":     {false, 10, 100, [][]*extv3.RateLimitDescriptor{{charge(), oneEntry("two")}, {charge(), oneEntry("two")}}, whatif.Totals{Requests: 3, RefusedInForce: 1, RefusedOnTrial: 1}},
		"a refund":             {false, 10, 100, [][]*extv3.RateLimitDescriptor{{weighing("ten", 9)}, {with(weighing("ten", 7), "koala.op", "refund"), oneEntry("two")}}, whatif.Totals{Requests: 3}},
		"with rules":           {true, 10, 100, [][]*extv3.RateLimitDescriptor{{charge()}, {charge()}}, whatif.Totals{Requests: 1, RefusedInForce: 1, RefusedOnTrial: 1}},
		"below a rule's count": {true, 100, 20, [][]*extv3.RateLimitDescriptor{{charge()}, {charge(), oneEntry("two")}}, whatif.Totals{Requests: 2}},
		"above a rule's count": {true, 100, 16, [][]*extv3.RateLimitDescriptor{{charge()}, {charge(), oneEntry("two")}}, whatif.Totals{Requests: 2, RefusedInForce: 1, RefusedOnTrial: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			config := &envoylimits.Config{Name: "c", Domain: "d"}
			for key, requests := range map[string]uint32{"two": 2, "ten": c.limit} {
				config.Descriptors = append(config.Descriptors, envoylimits.Descriptor{Key: key, Policy: &envoylimits.Policy{Unit: "hour", Requests: requests}})
			}
			limits, err := envoylimits.Compile([]*envoylimits.Config{config}, false)
			if err != nil {
				t.Fatal(err)
			}
			o := imported.Options{Current: func() *envoylimits.Set { return limits }, Statistics: statistics.New(0.8), Settle: true, Rules: c.rules}
			set := parse(t, fmt.Sprintf(rule, c.count))
			tried := trial.Start(trial.Options{
				Set: set, Counters: memory.New(memory.Options{}), Source: ratelimit.OnTrial(o, limits), LimitsOnly: !c.rules, RulesBeside: c.rules,
			})
			defer tried.Close()
			own := ratelimit.New(ratelimit.Options{Engine: engine.New(set, wiring.CountIn(memory.New(memory.Options{})), engine.Observe(tried.Observe))})
			i := &importedDoor{t: t}
			if i.limits, err = ratelimit.NewLimits(o, own); err != nil {
				t.Fatal(err)
			}
			syncModes[i.limits] = func() {}
			for _, descriptors := range append(c.calls, []*extv3.RateLimitDescriptor{weighing("ten", 3)}) {
				if _, err := i.try(descriptors...); err != nil {
					t.Fatal(err)
				}
			}
			for begin := time.Now(); tried.Totals().Requests < c.totals.Requests && time.Since(begin) < time.Minute; {
				time.Sleep(time.Millisecond)
			}
			if got := tried.Totals(); got != c.totals {
				t.Errorf("%+v; want %+v", got, c.totals)
			}
		})
	}
}
