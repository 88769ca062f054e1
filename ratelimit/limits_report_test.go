package ratelimit_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	extv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/dropin/imported"
	"github.com/koalagate/koalagate/internal/dropin/statistics"
	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/wire/wiretest"
	"github.com/koalagate/koalagate/rules"
)

// failures are statistics that report failed calls.
type failures struct {
	imported.Statistics
	report func(outcome string)
}

func (f failures) StoreFailed()   { f.report("unavailable") }
func (f failures) RequestFailed() { f.report("invalid") }

func TestEachCallOfImportedLimitsIsReportedOnce(t *testing.T) {
	unitless := oneEntry("two")
	unitless.Limit = &extv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1}
	for _, c := range []struct {
		name   string
		change func(*limitOptions, *clock)
		call   []*extv3.RateLimitDescriptor
		want   []string // of three calls
		logged []rules.Verdict
	}{
		{"a limit of two", nil, []*extv3.RateLimitDescriptor{oneEntry("ten"), oneEntry("two")}, []string{"allow", "allow", "deny"}, []rules.Verdict{rules.Allow, rules.Allow, rules.Deny}},
		{"no limit", nil, []*extv3.RateLimitDescriptor{oneEntry("none")}, []string{"allow", "allow", "allow"}, []rules.Verdict{rules.Allow, rules.Allow, rules.Allow}},
		{"without Redis", func(o *limitOptions, c *clock) { o.Store = storetest.Degraded{Store: c.store()} }, []*extv3.RateLimitDescriptor{oneEntry("two")}, []string{"allow degraded", "allow degraded", "deny degraded"}, []rules.Verdict{rules.Allow, rules.Allow, rules.Deny}},
		{"all in shadow", func(o *limitOptions, _ *clock) { o.Shadow = true }, []*extv3.RateLimitDescriptor{oneEntry("two")}, []string{"allow", "allow", "observed-deny"}, []rules.Verdict{rules.Allow, rules.Allow, rules.Allow}},
		{"mode observe", func(o *limitOptions, _ *clock) { o.Mode = func() engine.Mode { return engine.ModeObserve } }, []*extv3.RateLimitDescriptor{oneEntry("two")}, []string{"allow", "allow", "observed-deny"}, []rules.Verdict{rules.Allow, rules.Allow, rules.Allow}},
		{"mode off", func(o *limitOptions, _ *clock) { o.Mode = func() engine.Mode { return engine.ModeOff } }, []*extv3.RateLimitDescriptor{oneEntry("two")}, []string{"off", "off", "off"}, nil},
		{"a faulty call", nil, []*extv3.RateLimitDescriptor{unitless}, []string{"invalid", "invalid", "invalid"}, nil},
		{"a store that fails", func(o *limitOptions, _ *clock) { o.Store = storetest.Failing{Err: errors.New("out of order")} }, []*extv3.RateLimitDescriptor{oneEntry("two")}, []string{"unavailable", "unavailable", "unavailable"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			var logged []rules.Verdict
			i := importLimits(t, func(o *limitOptions, clock *clock) {
				if c.change != nil {
					c.change(o, clock)
				}
				o.Decided = func(outcome string, isDegraded bool) {
					if isDegraded {
						outcome += " degraded"
					}
					got = append(got, outcome)
				}
				o.Statistics = failures{o.Statistics, func(outcome string) { got = append(got, outcome) }}
				o.Log = func(call *engine.Call, d *engine.Decision) {
					if len(call.Inputs) != len(c.call) || len(d.Answers) != len(c.call) {
						t.Errorf("%d inputs and %d answers; want %d", len(call.Inputs), len(d.Answers), len(c.call))
					}
					logged = append(logged, d.Verdict)
				}
			})
			for range c.want {
				_, _ = i.try(c.call...)
			}
			if !slices.Equal(got, c.want) || !slices.Equal(logged, c.logged) {
				t.Errorf("got %q and %v in the log; want %q and %v", got, logged, c.want, c.logged)
			}
		})
	}
}

// envoyproxy/ratelimit counts the calls of its gRPC service, and no calls by /json.
func TestCallsByGRPCAloneAreCounted(t *testing.T) {
	counted := statistics.New(0.8)
	i := importLimits(t, func(o *limitOptions, _ *clock) { o.Statistics = counted })
	i.want(ok, nil, oneEntry("two"))
	request := wiretest.Marshal(t, &rlsv3.RateLimitRequest{Domain: "d", Descriptors: []*extv3.RateLimitDescriptor{oneEntry("two")}})
	front := wiretest.Open(i.limits)
	for range 3 {
		if _, err := front.Call(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	i.want(overLimit, nil, oneEntry("two"))
	var text strings.Builder
	if err := counted.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "ratelimit_server.ShouldRateLimit.total_requests: 3\n") {
		t.Errorf("want 3 calls in\n%s", &text)
	}
}

// limitPaths are statistics that keep the paths of what is counted.
type limitPaths struct {
	imported.Statistics
	paths, limits map[string]bool
}

func (p limitPaths) Counted(path string, l *envoylimits.Limit, _, _, _, _ uint64) {
	p.paths[path], p.limits[l.Path] = true, true
}

func (p limitPaths) Subtracted(path string, l *envoylimits.Limit, _ uint64) {
	p.paths[path], p.limits[l.Path] = true, true
}

// The path of the limit bounds the statistics, so that it must have no value of a request.
func TestLimitsThatDescriptorsStateHavePathsWithoutValues(t *testing.T) {
	got := limitPaths{paths: make(map[string]bool), limits: make(map[string]bool)}
	i := importLimits(t, func(o *limitOptions, _ *clock) { o.Statistics = got })
	back := with(stating("any", 5), "other", "")
	back.HitsAddend, back.IsNegativeHits = wrapperspb.UInt64(1), true
	i.want(ok, nil, stating("any", 5), back)
	if want := map[string]bool{"d.any_x": true, "d.any_x.other": true}; !maps.Equal(got.paths, want) {
		t.Errorf("the paths are %v; want %v", got.paths, want)
	}
	if want := map[string]bool{"d.any": true, "d.any.other": true}; !maps.Equal(got.limits, want) {
		t.Errorf("the paths of the limits are %v; want %v", got.limits, want)
	}
}
