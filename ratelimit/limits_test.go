package ratelimit_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	extv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/dropin/imported"
	"github.com/koalagate/koalagate/internal/dropin/statistics"
	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/ratelimit"
	"github.com/koalagate/koalagate/rules"
)

// recording is what envoyproxy/ratelimit answered to a script of calls, with a
// configuration and an empty Redis, within one window.
type recording struct {
	Name        string
	Environment map[string]string
	Config      []string
	// Limits are the lines of /rlconfig.
	Limits []string
	Calls  []struct{ Request, Answer json.RawMessage }
	// Statistics are the counters that are not 0.
	Statistics map[string]uint64
}

// seconds is a time until a reset, which the clock of the recording determines.
const seconds = "(seconds)"

func recordings(t *testing.T) []recording {
	t.Helper()
	files, err := filepath.Glob("testdata/recorded/*.json")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	list := make([]recording, len(files))
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &list[i])
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	return list
}

// compile compiles the files of a recording.
func (r *recording) compile(t testing.TB) *envoylimits.Set {
	t.Helper()
	configs := make([]*envoylimits.Config, len(r.Config))
	for i, text := range r.Config {
		var err error
		if configs[i], err = envoylimits.Read("config."+strconv.Itoa(i), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	set, err := envoylimits.Compile(configs, r.Environment["MERGE_DOMAIN_CONFIG"] == "true")
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// options returns the options that the environment of a recording means.
func (r *recording) options(set *envoylimits.Set, s imported.Statistics) limitOptions {
	is := func(name string) bool { return r.Environment[name] == "true" }
	o := imported.Options{
		Current: func() *envoylimits.Set { return set }, Statistics: s,
		StopWhenOver: is("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT"), Shadow: is("SHADOW_MODE"), Quota: is("QUOTA_MODE"),
		Metadata: is("RESPONSE_DYNAMIC_METADATA"),
	}
	if is("LIMIT_RESPONSE_HEADERS_ENABLED") {
		o.Headers = &imported.Headers{Limit: r.Environment["LIMIT_LIMIT_HEADER"], Remaining: "RateLimit-Remaining", Reset: "RateLimit-Reset"}
	}
	return limitOptions{Options: o, Store: newClock().store()}
}

func TestRecordedAnswers(t *testing.T) {
	calls := 0
	for _, r := range recordings(t) {
		calls += len(r.Calls)
		t.Run(r.Name, func(t *testing.T) {
			set := r.compile(t)
			var lines []string
			for _, l := range set.Limits() {
				lines = append(lines, l.String())
			}
			slices.Sort(lines)
			if diff := cmp.Diff(r.Limits, append([]string{}, lines...)); diff != "" {
				t.Errorf("limits, -want +got:\n%s", diff)
			}
			counted := statistics.New(0.8)
			limits := newLimits(t, r.options(set, counted))
			for i, call := range r.Calls {
				if got, want := answerTo(t, limits, call.Request), wanted(t, call.Answer); got == nil && want != nil || got != nil && want == nil || got != nil && !cmp.Equal(want, got, protocmp.Transform()) {
					t.Errorf("call %d, %s:\n%s", i, call.Request, cmp.Diff(want, got, protocmp.Transform()))
				}
			}
			if diff := cmp.Diff(r.Statistics, countsOf(t, counted)); diff != "" {
				t.Errorf("statistics, -want +got:\n%s", diff)
			}
		})
	}
	t.Logf("%d recorded calls", calls)
}

// Rules beside the limits decide in the same step. While they allow, the answers and the
// statistics are those of the limits, and the rules count the calls that the limits allow.
func TestRecordedAnswersBesideRules(t *testing.T) {
	const text = `[rules]
rule : [count] [domain=+] [time=86400; count=1000000] [result=2; return=201]
[result]
0 : {"Err_no":0, "Str_reason":"Allow"}
1 : {"Err_no":0, "Str_reason":"Allow"}
2 : {"Err_no":10, "Str_reason":"Deny"}
`
	for _, r := range recordings(t) {
		t.Run(r.Name, func(t *testing.T) {
			counted, set := statistics.New(0.8), r.compile(t)
			o := r.options(set, counted)
			e := engine.New(parse(t, text), wiring.CountIn(o.Store))
			o.Rules = ratelimit.New(ratelimit.Options{Engine: e, PlainEntries: true})
			limits := newLimits(t, o)
			allowed, overridden := make(map[string]int64), false
			for i, call := range r.Calls {
				got, want := answerTo(t, limits, call.Request), wanted(t, call.Answer)
				if got == nil && want != nil || got != nil && want == nil || got != nil && !cmp.Equal(want, got, protocmp.Transform()) {
					t.Errorf("call %d, %s:\n%s", i, call.Request, cmp.Diff(want, got, protocmp.Transform()))
				}
				if want.GetOverallCode() == ok {
					in := new(rlsv3.RateLimitRequest)
					if err := protojson.Unmarshal(call.Request, in); err != nil {
						t.Fatal(err)
					}
					allowed[in.GetDomain()] += weightOf(in)
					overridden = overridden || slices.ContainsFunc(in.GetDescriptors(), func(d *extv3.RateLimitDescriptor) bool { return d.GetLimit() != nil })
				}
			}
			if diff := cmp.Diff(r.Statistics, countsOf(t, counted)); diff != "" {
				t.Errorf("statistics, -want +got:\n%s", diff)
			}
			if overridden { // a limit of a descriptor gives the rule a counter of its own
				return
			}
			for domain, hits := range allowed {
				d, err := e.Decide(t.Context(), &engine.Call{Op: engine.Browse, Inputs: []engine.Input{{Params: rules.MakeParams(map[string]string{"domain": domain}), NoHits: true}}})
				if used := d.Answers[0].Quota.Limit - d.Answers[0].Quota.Remaining; err != nil || used != hits {
					t.Errorf("the rule counted %d hits of %s, %v; want %d", used, domain, err, hits)
				}
			}
		})
	}
}

// weightOf returns the hits that a request takes from limits that all descriptors share.
func weightOf(in *rlsv3.RateLimitRequest) int64 {
	hits := int64(0)
	for _, d := range in.GetDescriptors() {
		switch {
		case d.GetHitsAddend() == nil:
			hits += max(1, int64(in.GetHitsAddend()))
		case !d.GetIsNegativeHits():
			hits += int64(d.GetHitsAddend().GetValue())
		}
	}
	return hits
}

// wanted returns a recorded answer, nil for an error.
func wanted(t *testing.T, text []byte) *rlsv3.RateLimitResponse {
	t.Helper()
	if strings.Contains(string(text), `"error"`) {
		return nil
	}
	want := new(rlsv3.RateLimitResponse)
	if err := protojson.Unmarshal(text, want); err != nil {
		t.Fatal(err)
	}
	return want
}

// answerTo returns the answer to a request without times, nil for an error.
func answerTo(t *testing.T, limits *ratelimit.Limits, request []byte) *rlsv3.RateLimitResponse {
	t.Helper()
	in := new(rlsv3.RateLimitRequest)
	if err := protojson.Unmarshal(request, in); err != nil {
		return nil
	}
	text, err := proto.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := limits.Decide(t.Context(), text)
	if err != nil {
		return nil
	}
	got := new(rlsv3.RateLimitResponse)
	if err := proto.Unmarshal(reply, got); err != nil {
		t.Fatal(err)
	}
	for _, s := range got.GetStatuses() {
		if (s.GetDurationUntilReset().GetSeconds() > 0) != (s.GetCurrentLimit() != nil) {
			t.Errorf("the status %v has %v until its reset", s, s.GetDurationUntilReset())
		}
		s.DurationUntilReset = nil
	}
	for _, h := range got.GetResponseHeadersToAdd() {
		if h.GetKey() == "RateLimit-Reset" {
			h.Value = seconds
		}
	}
	return got
}

// countsOf returns the counters that a recording contains.
func countsOf(t *testing.T, s *statistics.Statistics) map[string]uint64 {
	t.Helper()
	var text strings.Builder
	if err := s.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]uint64)
	for line := range strings.Lines(text.String()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		short, isLimit := strings.CutPrefix(name, "ratelimit.service.rate_limit.")
		if n > 0 && (isLimit || strings.HasSuffix(name, "global_shadow_mode")) {
			counts[short] = n
		}
	}
	return counts
}
