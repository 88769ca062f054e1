package ratelimit_test

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	extv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/koalagate/koalagate/engine"
	gates "github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/ratelimit"
	"github.com/koalagate/koalagate/rules"
)

// oneOfBoth has a rule that admits one hit a minute of each value of ten.
const oneOfBoth = `[rules]
rule : [count] [domain=d; ten=+] [time=60; count=1] [result=2; return=201]
[result]
0 : {"Err_no":0, "Str_reason":"Allow"}
1 : {"Err_no":0, "Str_reason":"Allow"}
2 : {"Err_no":10, "Str_reason":"Deny"}
`

// Limits and rules of one call are one step: the rules count only if the call is allowed,
// and limits count what a rule refuses unless refusals are free.
func TestLimitsAndRulesCountInOneStep(t *testing.T) {
	for name, c := range map[string]struct {
		free bool
		left uint32 // of the limit of ten, after a call that the rule refuses
	}{"refusals count": {false, 7}, "free refusals": {true, 8}} {
		t.Run(name, func(t *testing.T) {
			i := importLimits(t, func(o *limitOptions, clock *clock) {
				o.FreeRefusals = c.free
				o.Rules = ratelimit.New(ratelimit.Options{Engine: engine.New(parse(t, oneOfBoth), wiring.CountIn(clock.store()))})
			})
			// A limit refuses: the rule has counted nothing.
			i.want(overLimit, nil, weighing("two", 3), oneEntry("ten"))
			i.clock.pass(time.Hour)
			i.want(ok, []uint32{9}, oneEntry("ten"))
			// The rule refuses.
			i.want(overLimit, nil, oneEntry("ten"))
			i.clock.pass(time.Minute)
			i.want(ok, []uint32{c.left}, oneEntry("ten"))
		})
	}
}

// An exhausted quota beside another one refuses nothing; all of them refuse the call.
func TestQuotasRefuseTogetherBesideRules(t *testing.T) {
	i := importLimits(t, func(o *limitOptions, clock *clock) {
		o.Quota = true
		o.Rules = ratelimit.New(ratelimit.Options{Engine: engine.New(parse(t, oneOfBoth), wiring.CountIn(clock.store()))})
	})
	i.want(ok, []uint32{0, 9}, weighing("two", 2), oneEntry("ten"))
	i.clock.pass(time.Minute)
	i.want(ok, []uint32{0, 8}, oneEntry("two"), oneEntry("ten"))
	i.clock.pass(time.Minute)
	i.want(overLimit, []uint32{0, 0}, oneEntry("two"), weighing("ten", 9))
}

// subjectOf returns the identity of the counter of an hourly limit in domain d of one entry.
func subjectOf(key, value string) []byte {
	b := []byte{0xF3, byte(envoylimits.Hour)}
	for _, text := range []string{"d", key + "_" + value} {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	return b
}

func TestExceptionsFromImportedLimits(t *testing.T) {
	refused := &rules.Result{RetType: 2, ErrNo: 429, StrReason: "Deny", HTTPStatus: 429}
	for _, c := range []struct {
		kind  engine.ExceptionKind
		count int64
		codes []rlsv3.RateLimitResponse_Code // of calls with a limit of 2
		left  uint32                         // after the first
	}{
		{engine.ExceptDeny, 0, []rlsv3.RateLimitResponse_Code{overLimit, overLimit}, 0},
		{engine.ExceptAllow, 0, []rlsv3.RateLimitResponse_Code{ok, ok, ok, ok}, 2},
		{engine.ExceptCount, 3, []rlsv3.RateLimitResponse_Code{ok, ok, ok, overLimit}, 2},
	} {
		exceptions := new(engine.Exceptions)
		exceptions.Set([]engine.Exception{{
			ID: "x", Kind: c.kind, Count: c.count, Until: 1 << 45,
			Match: rules.Match{Rule: &rules.Rule{Method: rules.Count, Result: refused}, Identity: subjectOf("two", "x")},
		}})
		i := importLimits(t, func(o *limitOptions, _ *clock) { o.Exceptions = exceptions })
		for j, code := range c.codes {
			var left []uint32
			if j == 0 {
				left = []uint32{c.left}
			}
			i.want(code, left, oneEntry("two"))
		}
	}
}

func TestCallsOfImportedLimitsAreWatched(t *testing.T) {
	var verdicts []rules.Verdict
	var name string
	watch := &gates.Watch{Decided: func(_ context.Context, q *gates.Question, _ time.Time, d *engine.Decision, err error) {
		if err != nil || q.Request.Door != "ratelimit" {
			t.Errorf("door %s, %v", q.Request.Door, err)
		}
		if verdicts = append(verdicts, d.Verdict); d.Refuser >= 0 {
			name = d.Answers[d.Refuser].Decider.Name
		}
	}}
	i := importLimits(t, func(o *limitOptions, _ *clock) { o.Watch = watch })
	i.want(ok, nil, oneEntry("two"))
	i.want(overLimit, nil, weighing("two", 2), oneEntry("none"))
	if len(verdicts) != 2 || verdicts[1] != rules.Deny || name != "d.two" {
		t.Errorf("%v by %q; want two decisions, the second a refusal by d.two", verdicts, name)
	}
	// The name of a limit that a descriptor carries would be a value of its caller.
	own := oneEntry("two")
	own.Limit = &extv3.RateLimitDescriptor_RateLimitOverride{Unit: 3}
	if i.want(overLimit, nil, own); name != "" {
		t.Errorf("the limit of a descriptor has the name %q", name)
	}
}

// With the policy deny the engine refuses what a limit in shadow mode lets pass.
func TestShadowPassesWithoutRedis(t *testing.T) {
	i := importLimits(t, func(o *limitOptions, clock *clock) {
		o.Store, o.Outage, o.Shadow = away(t, clock, 1), rules.FailDeny, true
	})
	i.want(ok, nil, oneEntry("two"))
}
