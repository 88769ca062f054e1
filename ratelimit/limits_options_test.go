package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	extv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/koalagate/koalagate/engine"
	gates "github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/dropin/imported"
	"github.com/koalagate/koalagate/internal/dropin/statistics"
	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/rescue"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/ratelimit"
	"github.com/koalagate/koalagate/rules"
)

// importedDoor is a door of imported limits with a clock of its own.
type importedDoor struct {
	t      *testing.T
	clock  *clock
	limits *ratelimit.Limits
}

// limitOptions are the arguments of ratelimit.NewLimits.
type limitOptions struct {
	imported.Options
	Rules      *ratelimit.Server
	Store      store.Store
	Mode       func() engine.Mode
	Outage     rules.FailPolicy
	Exceptions *engine.Exceptions
	Watch      *gates.Watch
	Decided    func(outcome string, isDegraded bool)
	Log        func(*engine.Call, *engine.Decision)
}

const nothing = `[rules]
[result]
0 : {"Err_no":0, "Str_reason":"Allow"}
1 : {"Err_no":0, "Str_reason":"Allow"}
`

// syncModes sets the modes of the doors that newLimits made.
var syncModes = map[*ratelimit.Limits]func(){}

func newLimits(t *testing.T, o limitOptions) *ratelimit.Limits {
	t.Helper()
	own, modes := o.Rules, new(engine.Modes)
	o.Options.Rules = own != nil
	if own == nil {
		none, findings := rules.Parse([]rules.Source{{Name: "none", Text: []byte(nothing)}}, rules.Options{AllowEmpty: true})
		if findings.HasErrors() {
			t.Fatal(findings)
		}
		own = ratelimit.New(ratelimit.Options{PlainEntries: !o.Settle, Watch: o.Watch, Engine: engine.New(none, wiring.CountIn(o.Store), engine.WithModes(modes), engine.WithExceptions(o.Exceptions),
			engine.WithPolicies(engine.Policies{"ratelimit": o.Outage}), engine.Observe(func(c *engine.Call, d *engine.Decision, err error) {
				if c.Unobserved || err != nil || d.Unavailable || o.Decided == nil || c.Op != engine.Take {
					return
				}
				word := d.Verdict.String()
				for i := range d.Answers {
					if a := &d.Answers[i]; a.Overruled() || a.Mode == engine.ModeOff {
						word = a.DecisionWord()
					}
				}
				o.Decided(word, d.Degraded)
				if o.Log != nil && word != "off" {
					o.Log(c, d)
				}
			}))})
	}
	limits, err := ratelimit.NewLimits(o.Options, own)
	if err != nil {
		t.Fatal(err)
	}
	syncModes[limits] = func() {
		if o.Mode != nil {
			modes.Set(map[string]engine.Mode{"ratelimit": o.Mode()})
		}
	}
	return limits
}

// importLimits returns a door of limits in domain d, given as key and limit per hour.
func importLimits(t *testing.T, change func(*limitOptions, *clock)) *importedDoor {
	t.Helper()
	config := &envoylimits.Config{Name: "c", Domain: "d"}
	for key, requests := range map[string]uint32{"two": 2, "ten": 10} {
		config.Descriptors = append(config.Descriptors, envoylimits.Descriptor{Key: key, Policy: &envoylimits.Policy{Unit: "hour", Requests: requests}})
	}
	set, err := envoylimits.Compile([]*envoylimits.Config{config}, false)
	if err != nil {
		t.Fatal(err)
	}
	i := &importedDoor{t: t, clock: newClock()}
	o := limitOptions{Options: imported.Options{Current: func() *envoylimits.Set { return set }, Statistics: statistics.New(0.8)}, Store: i.clock.store()}
	if change != nil {
		change(&o, i.clock)
	}
	i.limits = newLimits(t, o)
	return i
}

// oneEntry returns a descriptor of one entry.
func oneEntry(key string) *extv3.RateLimitDescriptor {
	return &extv3.RateLimitDescriptor{Entries: []*extv3.RateLimitDescriptor_Entry{{Key: key, Value: "x"}}}
}

// weighing returns a descriptor that carries its hits.
func weighing(key string, hits uint64) *extv3.RateLimitDescriptor {
	d := oneEntry(key)
	d.HitsAddend = wrapperspb.UInt64(hits)
	return d
}

// try calls the door.
func (i *importedDoor) try(d ...*extv3.RateLimitDescriptor) (*rlsv3.RateLimitResponse, error) {
	i.t.Helper()
	request, err := proto.Marshal(&rlsv3.RateLimitRequest{Domain: "d", Descriptors: d})
	if err != nil {
		i.t.Fatal(err)
	}
	syncModes[i.limits]()
	reply, err := i.limits.Decide(i.t.Context(), request)
	if err != nil {
		return nil, err
	}
	answer := new(rlsv3.RateLimitResponse)
	if err := proto.Unmarshal(reply, answer); err != nil {
		i.t.Fatal(err)
	}
	return answer, nil
}

// want calls the door and checks the overall code, and what remains of each limit.
func (i *importedDoor) want(code rlsv3.RateLimitResponse_Code, remaining []uint32, d ...*extv3.RateLimitDescriptor) {
	i.t.Helper()
	answer, err := i.try(d...)
	if err != nil {
		i.t.Fatal(err)
	}
	if answer.GetOverallCode() != code {
		i.t.Errorf("the code is %v; want %v", answer.GetOverallCode(), code)
	}
	for j, want := range remaining {
		if got := answer.GetStatuses()[j].GetLimitRemaining(); got != want {
			i.t.Errorf("%d remain of limit %d; want %d", got, j, want)
		}
	}
}

func TestFreeRefusalsCountNowhere(t *testing.T) {
	i := importLimits(t, func(o *limitOptions, _ *clock) { o.FreeRefusals = true })
	i.want(ok, []uint32{1, 9}, oneEntry("two"), oneEntry("ten"))
	i.want(ok, []uint32{0, 8}, oneEntry("two"), oneEntry("ten"))
	i.want(overLimit, []uint32{0, 8}, oneEntry("two"), oneEntry("ten"))
	i.want(ok, []uint32{7}, oneEntry("ten"))
	// A cost after the response counts, although it exceeds the limit.
	i.want(overLimit, []uint32{0}, weighing("ten", 20))
	i.want(overLimit, []uint32{0}, weighing("ten", 1))
	i.want(overLimit, []uint32{0}, oneEntry("ten"))
}

func TestWindows(t *testing.T) {
	const half = 30 * time.Minute
	for _, test := range []struct {
		windows imported.Windows
		// What remains at :00, :30, 1:00 + 1 s and 1:30 + 1 s, with a hit each.
		remaining []uint32
	}{
		{imported.Fixed, []uint32{9, 8, 9, 8}},
		{imported.Opening, []uint32{9, 8, 9, 8}},
		{imported.Sliding, []uint32{9, 8, 8, 8}},
	} {
		t.Run(string(test.windows), func(t *testing.T) {
			i := importLimits(t, func(o *limitOptions, _ *clock) { o.Windows = test.windows })
			for j, remaining := range test.remaining {
				i.want(ok, []uint32{remaining}, oneEntry("ten"))
				if i.clock.pass(half); j == 1 {
					i.clock.pass(time.Second)
				}
			}
		})
	}
	t.Run("opening in the middle of an hour", func(t *testing.T) {
		for windows, remaining := range map[imported.Windows]uint32{imported.Fixed: 9, imported.Opening: 8} {
			i := importLimits(t, func(o *limitOptions, _ *clock) { o.Windows = windows })
			i.clock.pass(45 * time.Minute)
			i.want(ok, []uint32{9}, oneEntry("ten"))
			i.clock.pass(half)
			i.want(ok, []uint32{remaining}, oneEntry("ten"))
		}
	})
}

func TestNegativeHitsAreGivenBack(t *testing.T) {
	i := importLimits(t, nil)
	i.want(ok, []uint32{4}, weighing("ten", 6))
	back := weighing("ten", 4)
	back.IsNegativeHits = true
	i.want(ok, []uint32{8}, back)
	back.HitsAddend = wrapperspb.UInt64(100)
	i.want(ok, []uint32{10}, back)
	i.want(ok, []uint32{9}, oneEntry("ten"))
}

func TestMissingOptionsAreErrors(t *testing.T) {
	complete := imported.Options{Current: func() *envoylimits.Set { return nil }, Statistics: statistics.New(0.8)}
	if limits, err := ratelimit.NewLimits(complete, nil); limits != nil || err == nil || !strings.Contains(err.Error(), "no door of rules") {
		t.Errorf("without a door of rules: %v, %v; want an error", limits, err)
	}
	for option, drop := range map[string]func(*imported.Options){
		"Current":    func(o *imported.Options) { o.Current = nil },
		"Statistics": func(o *imported.Options) { o.Statistics = nil },
	} {
		o := complete
		drop(&o)
		if limits, err := ratelimit.NewLimits(o, nil); limits != nil || err == nil || !strings.Contains(err.Error(), "no "+option) {
			t.Errorf("without %s: %v, %v; want an error that names it", option, limits, err)
		}
	}
}

func TestCallsThatCannotBeDecided(t *testing.T) {
	override := oneEntry("ten")
	override.Limit = &extv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1}
	for _, test := range []struct {
		name   string
		change func(*limitOptions, *clock)
		call   *extv3.RateLimitDescriptor
		want   string
	}{
		{"without limits", func(o *limitOptions, _ *clock) { o.Current = func() *envoylimits.Set { return nil } }, oneEntry("ten"), "no rate limit configuration loaded"},
		{"an override without a unit", nil, override, "has no unit"},
		{"a store that fails", func(o *limitOptions, _ *clock) { o.Store = storetest.Failing{Err: errors.New("out of order")} }, oneEntry("ten"), "out of order"},
		{"no Redis, and the gateway decides", func(o *limitOptions, c *clock) {
			o.Store, o.Outage = storetest.Degraded{Store: c.store()}, rules.FailGateway
		}, oneEntry("ten"), "Redis is unavailable"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := importLimits(t, test.change).try(test.call)
			if status.Code(err) != codes.Unknown || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v; want the code Unknown and %q", err, test.want)
			}
		})
	}
}

func TestPoliciesWithoutRedis(t *testing.T) {
	for _, test := range []struct {
		outage rules.FailPolicy
		share  float64
		codes  []rlsv3.RateLimitResponse_Code // of three calls with a limit of 2
	}{
		{rules.FailRescue, 1, []rlsv3.RateLimitResponse_Code{ok, ok, overLimit}},
		{rules.FailRescue, 0.5, []rlsv3.RateLimitResponse_Code{ok, overLimit, overLimit}},
		{rules.FailAllow, 1, []rlsv3.RateLimitResponse_Code{ok, ok, ok}},
		{rules.FailDeny, 1, []rlsv3.RateLimitResponse_Code{overLimit, overLimit, overLimit}},
		{rules.FailDeny + 1, 1, []rlsv3.RateLimitResponse_Code{overLimit, overLimit, overLimit}}, // unknown
	} {
		i := importLimits(t, func(o *limitOptions, c *clock) {
			o.Store, o.Outage = away(t, c, test.share), test.outage
		})
		for _, code := range test.codes {
			i.want(code, nil, oneEntry("two"))
		}
	}
}

func TestModesOfImportedLimits(t *testing.T) {
	mode := engine.ModeOff
	i := importLimits(t, func(o *limitOptions, _ *clock) { o.Mode = func() engine.Mode { return mode } })
	want := func(name string, code rlsv3.RateLimitResponse_Code, d ...*extv3.RateLimitDescriptor) {
		t.Helper()
		answer, err := i.try(d...)
		if err != nil || answer.GetOverallCode() != code || len(answer.GetStatuses()) != len(d) {
			t.Errorf("mode %s, %s: %v, %v; want %v", mode, name, answer, err, code)
		}
	}
	faulty := oneEntry("two")
	faulty.Limit = &extv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1} // without a unit
	for range 3 {
		want("a call", ok, oneEntry("two"))
	}
	want("a faulty call", ok, faulty)
	mode = engine.ModeObserve
	for range 3 {
		want("a call", ok, oneEntry("two"))
	}
	want("a faulty call", ok, faulty)
	mode = engine.ModeEnforce
	want("a call after those of mode observe", overLimit, oneEntry("two"))
	i.clock.pass(time.Hour)
	want("a call in the next hour", ok, oneEntry("two"))
	if _, err := i.try(faulty); status.Code(err) != codes.Unknown {
		t.Errorf("a faulty call: %v; want the code Unknown", err)
	}
}

func TestRulesBesideImportedLimitsMustAllowToo(t *testing.T) {
	const text = `[rules]
rule : [count] [domain=d; ten=+] [time=60; count=1] [result=2; return=201]
[result]
0 : {"Err_no":0, "Str_reason":"Allow"}
1 : {"Err_no":0, "Str_reason":"Allow"}
2 : {"Err_no":10, "Str_reason":"Deny"}
`
	i := importLimits(t, func(o *limitOptions, c *clock) {
		o.Rules = ratelimit.New(ratelimit.Options{Engine: engine.New(parse(t, text), wiring.CountIn(c.store()))})
	})
	i.want(ok, []uint32{9}, oneEntry("ten"))
	i.want(overLimit, nil, oneEntry("ten"))
	i.want(ok, []uint32{1}, oneEntry("two"))
	i.clock.pass(time.Minute)
	i.want(ok, []uint32{7}, oneEntry("ten")) // the limits counted what the rules refused
	unit := oneEntry("ten")
	unit.Limit = &extv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 3, Unit: typev3.RateLimitUnit_HOUR}
	i.want(overLimit, nil, unit, oneEntry("two"))
}

// What rules say of a request that they allow reaches the gateway as without limits. What
// is forwarded is the value that [params] derive, and not the entry of that name, which limits see.
func TestRulesBesideImportedLimitsMarkAndForward(t *testing.T) {
	const text = `[params]
user : descriptor ten
[forward]
X-User : user
[rules]
rule : [count] [domain=d; user=+] [time=3600; count=1] [result=2; return=201; mark=near]
rule : [count] [domain=d; user=+] [time=3600; count=1] [result=2; return=202; shadow=1]
rule : [count] [domain=d; user=+] [time=3600; count=3] [result=2; return=203]
[result]
0 : {"Err_no":0, "Str_reason":"Allow"}
1 : {"Err_no":0, "Str_reason":"Allow"}
2 : {"Err_no":10, "Str_reason":"Deny"}
`
	for _, metadata := range []bool{false, true} {
		i := importLimits(t, func(o *limitOptions, c *clock) {
			o.Rules = ratelimit.New(ratelimit.Options{Engine: engine.New(parse(t, text), wiring.CountIn(c.store()))})
			o.Metadata = metadata
		})
		for n, want := range []string{"X-User=x", "X-User=x marks=near shadow=202", "X-User=x marks=near shadow=202", ""} {
			answer, err := i.try(weighing("ten", 0), with(oneEntry("ten"), "user", "forged"))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, h := range answer.GetRequestHeadersToAdd() {
				got = append(got, h.GetKey()+"="+h.GetValue())
			}
			fields := answer.GetDynamicMetadata().GetFields()
			for _, mark := range fields["marks"].GetListValue().GetValues() {
				got = append(got, "marks="+mark.GetStringValue())
			}
			for _, rule := range fields["shadow"].GetListValue().GetValues() {
				got = append(got, fmt.Sprint("shadow=", rule.GetNumberValue()))
			}
			allowed := answer.GetOverallCode() == ok
			if allowed && strings.Join(got, " ") != want || allowed != (want != "") || !allowed && answer.GetRequestHeadersToAdd() != nil {
				t.Errorf("metadata %v, call %d: %v, %q; want %q", metadata, n, answer.GetOverallCode(), got, want)
			}
			if domain := fields["domain"].GetStringValue(); allowed && (domain == "d") != metadata {
				t.Errorf("metadata %v, call %d: the domain in the metadata is %q", metadata, n, domain)
			}
		}
	}
}

// away returns a store whose Redis is away.
func away(t *testing.T, c *clock, share float64) store.Store {
	s := rescue.New(unreachable{}, c.store(), rescue.Options{Share: share})
	t.Cleanup(s.Close)
	return s
}

// unreachable is a Redis that is away.
type unreachable struct{ store.Store }

var errAway = errors.New("away")

func (unreachable) Check(context.Context) error { return errAway }
func (unreachable) TryAssign(context.Context, *store.Usage) (store.Assignment, store.Attempt, error) {
	return store.Assignment{}, store.Attempt{}, errAway
}

func (unreachable) Try(context.Context, *store.Plan, *store.Answers) (store.Attempt, error) {
	return store.Attempt{Health: store.Unreachable}, errAway
}
