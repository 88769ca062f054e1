package ratelimit_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/wire/wiretest"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/ratelimit"
	"github.com/koalagate/koalagate/rules"
)

const outcomes = `
[rules]
rule : [direct] [act=black] [time=1; count=0;] [result=2; return=10]
rule : [direct] [act=robot] [time=1; count=0;] [result=3; return=12]
rule : [direct] [act=own] [time=1; count=0;] [result=4; return=13]
rule : [count] [uid=+] [time=90; count=2;] [result=2; return=201]
rule : [count] [quiet=+] [time=90; count=1;] [result=2; return=202; quiet=1]
rule : [count] [dear=+] [time=90; count=10; cost=dear] [result=2; return=203]
rule : [count] [day=+] [time=86400; count=1;] [result=2; return=204]
rule : [count] [post=+] [time=90; count=1;] [result=3; return=205]
rule : [count] [domain=other; tenant=+] [time=90; count=1;] [result=2; return=206]
rule : [count] [trial=+] [time=90; count=1;] [result=2; return=207; shadow=1]
rule : [count] [soft=+] [time=90; count=1;] [result=2; return=209; mark=slow]
rule : [count] [late=+] [time=90; count=1;] [result=2; return=210; mark=late]
rule : [count] [named=+] [time=90; count=1;] [result=2; return=208; name=posts]
rule : [direct] [trial=+] [time=1; count=0;] [result=3; return=14; shadow=1]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10, "Err_msg":"slow down"}
3 : {"Need_vcode":1, "Vcode_len":4}
4 : {"Err_no":11, "Http_status":418, "Headers":{"X-Tea":"pot"}, "Body":"short and stout"}
`

// one returns a descriptor with one entry and further fields.
func one(key, value string, fields ...string) string {
	entry := fmt.Sprintf(`"entries": [{"key": %q, "value": %q}]`, key, value)
	return "{" + strings.Join(append([]string{entry}, fields...), ", ") + "}"
}

// base64Of returns bytes in the form of protobuf's JSON.
func base64Of(text string) string { return `"` + base64.StdEncoding.EncodeToString([]byte(text)) + `"` }

const problemOf = `"response_headers_to_add": [{"key": "Content-Type", "value": "application/problem+json"}], "raw_body": `

// TestCompleteReplies compares complete replies of every kind.
func TestCompleteReplies(t *testing.T) {
	const ann = `{"entries": [{"key": "uid", "value": "ann"}]}`
	limit := func(count, unit, multiplier, name string) string {
		return `"current_limit": {"requests_per_unit": ` + count + `, "unit": "` + unit + `", "unit_multiplier": ` + multiplier + `, "name": "` + name + `"}`
	}
	for name, test := range map[string]struct {
		ask  []string // one after the other; the last is answered with want
		want string
	}{
		"no rule matched": {[]string{one("other", "x")}, `{"overall_code": "OK", "statuses": [{"code": "OK"}],
			"dynamic_metadata": {"verdict": "none", "descriptor": 0, "result": 0}}`},
		"admitted": {[]string{ann}, `{"overall_code": "OK", "statuses": [{"code": "OK", ` + limit("2", "SECOND", "90", "201") + `,
			"limit_remaining": 1, "duration_until_reset": "90s"}],
			"dynamic_metadata": {"verdict": "allow", "descriptor": 0, "result": 1, "limit": 2, "remaining": 1, "reset": 90}}`},
		"refused": {[]string{ann, ann, ann}, `{"overall_code": "OVER_LIMIT", "statuses": [{"code": "OVER_LIMIT", ` + limit("2", "SECOND", "90", "201") + `,
			"duration_until_reset": "90s"}],
			` + problemOf + base64Of(`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,"detail":"slow down","violated-policies":["r201"]}`) + `,
			"dynamic_metadata": {"verdict": "deny", "descriptor": 0, "result": 2, "rule": 201, "limit": 2, "remaining": 0, "reset": 90}}`},
		"a calendar day": {[]string{one("day", "x")}, `{"overall_code": "OK", "statuses": [{"code": "OK", ` + limit("1", "DAY", "1", "204") + `,
			"duration_until_reset": "43200s"}],
			"dynamic_metadata": {"verdict": "allow", "descriptor": 0, "result": 1, "limit": 1, "remaining": 0, "reset": 43200}}`},
		"a direct refusal is reported as the 429 that Envoy sends for it": {[]string{one("act", "black")}, `{"overall_code": "OVER_LIMIT", "statuses": [{"code": "OVER_LIMIT"}],
			` + problemOf + base64Of(`{"type":"about:blank","title":"Too Many Requests","status":429,"detail":"slow down"}`) + `,
			"dynamic_metadata": {"verdict": "deny", "descriptor": 0, "result": 2, "rule": 10}}`},
		"a challenge": {[]string{one("act", "robot")}, `{"overall_code": "OVER_LIMIT", "statuses": [{"code": "OVER_LIMIT"}],
			` + problemOf + base64Of(`{"type":"about:blank","title":"Too Many Requests","status":429,"challenge":{"vcode_len":4,"vcode_type":0}}`) + `,
			"dynamic_metadata": {"verdict": "challenge", "descriptor": 0, "result": 3, "rule": 12}}`},
		"in an entry's own words": {[]string{one("act", "own")}, `{"overall_code": "OVER_LIMIT", "statuses": [{"code": "OVER_LIMIT"}],
			"response_headers_to_add": [{"key": "X-Tea", "value": "pot"}, {"key": "Content-Type", "value": "text/plain; charset=utf-8"}],
			"raw_body": ` + base64Of("short and stout") + `,
			"dynamic_metadata": {"verdict": "deny", "descriptor": 0, "result": 4, "rule": 13}}`},
		"a quiet rule's limits stay at the gateway": {[]string{one("quiet", "x")}, `{"overall_code": "OK", "statuses": [{"code": "OK"}],
			"dynamic_metadata": {"verdict": "allow", "descriptor": 0, "result": 1, "limit": 1, "remaining": 0, "reset": 90}}`},
		"a rule with a name": {[]string{one("named", "x"), one("named", "x")}, `{"overall_code": "OVER_LIMIT", "statuses": [{"code": "OVER_LIMIT", ` + limit("1", "SECOND", "90", "posts") + `,
			"duration_until_reset": "90s"}],
			` + problemOf + base64Of(`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,"detail":"slow down","violated-policies":["posts"]}`) + `,
			"dynamic_metadata": {"verdict": "deny", "descriptor": 0, "result": 2, "rule": 208, "rule_name": "posts", "limit": 1, "remaining": 0, "reset": 90}}`},
		"a limit of the call's own that meets a rule": {
			[]string{one("uid", "ann", `"limit": {"requests_per_unit": 7, "unit": "HOUR"}`)},
			`{"overall_code": "OK", "statuses": [{"code": "OK", ` + limit("7", "HOUR", "1", "201") + `, "limit_remaining": 6, "duration_until_reset": "3600s"}],
			"dynamic_metadata": {"verdict": "allow", "descriptor": 0, "result": 1, "limit": 7, "remaining": 6, "reset": 3600}}`,
		},
		"a limit of the call's own that meets none": {
			[]string{one("other", "x", `"limit": {"requests_per_unit": 0, "unit": "MINUTE"}`)},
			`{"overall_code": "OVER_LIMIT", "statuses": [{"code": "OVER_LIMIT", ` + limit("0", "MINUTE", "1", "limit") + `, "duration_until_reset": "60s"}],
			` + problemOf + base64Of(`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,"violated-policies":["limit"]}`) + `,
			"dynamic_metadata": {"verdict": "deny", "descriptor": 0, "limit": 0, "remaining": 0, "reset": 60}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, outcomes, nil)
			var got *rlsv3.RateLimitResponse
			for _, descriptor := range test.ask {
				got = d.ask(descriptor)
			}
			want := new(rlsv3.RateLimitResponse)
			if err := protojson.Unmarshal([]byte(test.want), want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Envoy makes Retry-After of the time until reset, and 1 without one. A status has it whenever
// koalagate knows when the client may return, also if it says nothing of a limit. A ban has the
// header, too, for an Envoy that makes none.
func TestRefusalsSayWhenToReturn(t *testing.T) {
	exceptions := new(engine.Exceptions)
	bannedUntil := func(now int64, seconds float64, name, value string) engine.Exception {
		return engine.Exception{ID: value, Kind: engine.ExceptBan, Until: now + int64(seconds*1000), Params: []rules.Param{{Name: name, Value: value}}}
	}
	for name, test := range map[string]struct {
		ask   []string // at once; the answer to the second call is checked
		reset []int64  // of each descriptor, 0 for none
		retry string   // the header; "" for none
	}{
		"a ban":                    {[]string{one("uid", "eve")}, []int64{3600}, "3600"},
		"a ban that no rule knows": {[]string{one("other", "eve")}, []int64{60}, "60"},
		"a ban beside others, of which nothing counts": {[]string{one("uid", "ann"), one("uid", "eve"), one("other", "eve")}, []int64{0, 3600, 60}, "3600"},
		"a quiet rule":                        {[]string{one("quiet", "x")}, []int64{90}, ""},
		"a rule with ban=":                    {[]string{one("fails", "x")}, []int64{1800}, ""},
		"a rule without an end":               {[]string{one("act", "black")}, []int64{0}, ""},
		"a challenge, which has no end":       {[]string{one("post", "x")}, []int64{0}, ""},
		"a client that no rule keeps waiting": {[]string{one("other", "x")}, []int64{0}, ""},
	} {
		for _, sendHeaders := range []bool{false, true} {
			d := open(t, strings.Replace(outcomes, "[rules]\n", "[rules]\nrule : [count] [fails=+] [time=60; count=1; ban=1800] [result=2; return=211]\n", 1), func(o *ratelimit.Options) {
				set := o.Engine.Rules()
				clock := newClock()
				exceptions.SetClock(clock.now)
				exceptions.Set([]engine.Exception{bannedUntil(clock.now(), 3599.5, "uid", "eve"), bannedUntil(clock.now(), 60, "other", "eve")})
				o.SendHeaders, o.Engine = sendHeaders, engine.New(set, wiring.CountIn(clock.store()), engine.WithExceptions(exceptions))
			})
			d.ask(test.ask...)
			reply := d.ask(test.ask...)
			var resets []int64
			for _, s := range reply.Statuses {
				resets = append(resets, s.GetDurationUntilReset().GetSeconds())
			}
			if diff := cmp.Diff(test.reset, resets); diff != "" {
				t.Errorf("%s, -want +got seconds until reset:\n%s", name, diff)
			}
			var retries []string
			for _, h := range reply.ResponseHeadersToAdd {
				if h.Key == "Retry-After" {
					retries = append(retries, h.Value)
				}
			}
			if got := strings.Join(retries, ", "); !sendHeaders && got != test.retry || sendHeaders && test.retry != "" && got != test.retry {
				t.Errorf("%s, ratelimit_headers %v: Retry-After %q; want %q", name, sendHeaders, got, test.retry)
			}
		}
	}
}

func TestResponseHeadersAreOptional(t *testing.T) {
	d := open(t, outcomes, func(o *ratelimit.Options) {
		o.SendHeaders, o.Presentation.Quota = true, engine.QuotaDraft10
	})
	for i, want := range [][]string{
		{"X-Koala-Decision: allow", "X-Koala-Result: 1", `RateLimit-Policy: "r201";q=2;w=90`, `RateLimit: "r201";r=1;t=90`},
		{"X-Koala-Decision: allow", "X-Koala-Result: 1", `RateLimit-Policy: "r201";q=2;w=90`, `RateLimit: "r201";r=0;t=90`},
		{
			"X-Koala-Decision: deny", "X-Koala-Rule: 201", "X-Koala-Result: 2", `RateLimit-Policy: "r201";q=2;w=90`, `RateLimit: "r201";r=0;t=90`,
			"Retry-After: 90", "Content-Type: application/problem+json",
		},
	} {
		var got []string
		// The first descriptor matches no rule, so the headers describe the other.
		for _, h := range d.ask(one("other", "x"), one("uid", "ann")).ResponseHeadersToAdd {
			got = append(got, h.Key+": "+h.Value)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("call %d, -want +got:\n%s", i, diff)
		}
	}
}

func TestUnavailableStoreIsAnError(t *testing.T) {
	d := open(t, outcomes, func(o *ratelimit.Options) {
		o.Engine = engine.New(parse(t, outcomes), wiring.CountIn(storetest.Failing{Err: errors.New("connection refused")}))
	})
	if _, err := d.call(request(t, `{"domain": "lab", "descriptors": [`+one("uid", "ann")+`]}`)); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v; want Unavailable", err)
	}
}

func TestTimeoutIsAnErrorNotADecision(t *testing.T) {
	door := wiretest.Open(ratelimit.New(ratelimit.Options{Engine: engine.New(parse(t, outcomes), wiring.CountIn(memory.New(memory.Options{})))}))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	reply, err := door.Call(ctx, wiretest.Marshal(t, request(t, `{"domain": "lab", "descriptors": [`+one("uid", "ann")+`]}`)))
	if reply != nil || status.Code(err) != codes.Canceled {
		t.Errorf("got %v, %v; want Canceled", reply, err)
	}
}

func TestParallelCallersReceiveExactlyTheLimit(t *testing.T) {
	d := open(t, strings.ReplaceAll(outcomes, "count=2", "count=10"), nil)
	var mu sync.Mutex
	var wg sync.WaitGroup
	admitted := 0
	for range 400 {
		wg.Go(func() {
			reply, err := d.call(request(t, `{"domain": "lab", "descriptors": [`+one("uid", "ann")+`, `+one("uid", "bob")+`]}`))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			} else if reply.OverallCode == ok {
				admitted++
			}
		})
	}
	wg.Wait()
	if admitted != 10 {
		t.Errorf("%d of 400 were admitted; want 10", admitted)
	}
}
