package ratelimit_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/ratelimit"
	"github.com/koalagate/koalagate/store"
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
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10, "Err_msg":"slow down"}
3 : {"Need_vcode":1, "Vcode_len":4}
4 : {"Err_no":11, "Http_status":418, "Headers":{"X-Tea":"pot"}, "Body":"short and stout"}
`

// one is a descriptor of one entry, with further fields.
func one(key, value string, fields ...string) string {
	entry := fmt.Sprintf(`"entries": [{"key": %q, "value": %q}]`, key, value)
	return "{" + strings.Join(append([]string{entry}, fields...), ", ") + "}"
}

// base64Of is bytes as JSON has them.
func base64Of(text string) string { return `"` + base64.StdEncoding.EncodeToString([]byte(text)) + `"` }

const problemOf = `"response_headers_to_add": [{"key": "Content-Type", "value": "application/problem+json"}], "raw_body": `

// TestCompleteReplies has every kind of answer in full, as it travels.
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
		"a direct refusal is told as the 429 that Envoy makes of it": {[]string{one("act", "black")}, `{"overall_code": "OVER_LIMIT", "statuses": [{"code": "OVER_LIMIT"}],
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

func TestTheDescriptorsOfACallAreOneStep(t *testing.T) {
	d := open(t, outcomes, nil)
	ann, bob := one("uid", "ann"), one("uid", "bob")
	for i, step := range []struct {
		ask   []string
		codes string
	}{
		{[]string{ann, bob}, "OO"}, // one left of both
		{[]string{ann, ann}, "OV"}, // the second sees what the first would take
		{[]string{ann, bob}, "OO"}, // the refused call took nothing
		{[]string{bob, ann}, "VV"}, // both are empty, and both say so
		{[]string{one("uid", "cat"), ann}, "OV"},
		{[]string{one("uid", "cat"), one("uid", "cat")}, "OO"}, // cat still had both
		{[]string{one("other", "x"), ann}, "OV"},
		{[]string{one("uid", "dan"), one("act", "black")}, "OV"},
		{[]string{one("uid", "dan"), one("uid", "dan")}, "OO"}, // the black list kept dan whole
	} {
		reply := d.ask(step.ask...)
		if got := codesOf(reply); got != step.codes {
			t.Errorf("step %d: %s; want %s", i, got, step.codes)
		}
	}
}

func TestTheReplyAsAWholeTellsOfTheOneThatDecides(t *testing.T) {
	d := open(t, outcomes, nil)
	reply := d.ask(one("day", "x"), one("other", "x"), one("act", "black"), one("act", "own"))
	if got := reply.DynamicMetadata.Fields["descriptor"].GetNumberValue(); got != 2 {
		t.Errorf("the metadata is of descriptor %v; want the first that is refused, 2", got)
	}
	if !strings.Contains(string(reply.RawBody), "slow down") {
		t.Errorf("the body is %s; want that of the first that is refused", reply.RawBody)
	}
	reply = d.ask(one("other", "x"), one("uid", "ann"), one("day", "x"))
	if got := reply.DynamicMetadata.Fields["descriptor"].GetNumberValue(); got != 2 {
		t.Errorf("the metadata is of descriptor %v; want the one with the least remaining, 2", got)
	}
}

func TestHitsAreWhatACallWeighs(t *testing.T) {
	d := open(t, outcomes, nil)
	remaining := func(want uint32, json string) {
		t.Helper()
		if got := d.askFor(json).Statuses[0]; got.Code != ok || got.LimitRemaining != want {
			t.Errorf("%s: %v, %d remaining; want OK and %d", json, got.Code, got.LimitRemaining, want)
		}
	}
	remaining(1, `{"domain": "lab", "hits_addend": 0, "descriptors": [`+one("uid", "a")+`]}`)
	remaining(0, `{"domain": "lab", "hits_addend": 2, "descriptors": [`+one("uid", "b")+`]}`)
	remaining(2, `{"domain": "lab", "hits_addend": 2, "descriptors": [`+one("uid", "c", `"hits_addend": "0"`)+`]}`)
	// What apply_on_stream_done sends when nothing was used.
	remaining(0, `{"domain": "lab", "descriptors": [`+one("uid", "b", `"hits_addend": "0"`)+`]}`)

	over := d.askFor(`{"domain": "lab", "hits_addend": 3, "descriptors": [` + one("uid", "d") + `]}`)
	if codesOf(over) != "V" || over.Statuses[0].LimitRemaining != 2 {
		t.Errorf("three hits on a limit of two: %v; want OVER_LIMIT with both left", over)
	}
}

func TestNegativeHitsGiveBack(t *testing.T) {
	d := open(t, outcomes, nil)
	ann, back := one("uid", "ann"), one("uid", "ann", `"is_negative_hits": true`)
	d.ask(ann)
	d.ask(ann)
	if got := codesOf(d.ask(ann)); got != "V" {
		t.Fatalf("the third of two: %s; want it refused", got)
	}
	if got := codesOf(d.ask(back)); got != "O" {
		t.Errorf("a refund: %s; want OK, though the limit is reached", got)
	}
	if got := codesOf(d.ask(ann)); got != "O" {
		t.Errorf("after a refund: %s; want room for one", got)
	}
	if got := codesOf(d.ask(back, one("act", "black"))); got != "OV" {
		t.Errorf("a refund beside a refusal: %s; want OK and OVER_LIMIT", got)
	}
	if got := codesOf(d.ask(ann)); got != "V" {
		t.Errorf("after that: %s; want nothing given back, as the call was refused", got)
	}
	for range 5 {
		d.ask(back)
	}
	if got := codesOf(d.askFor(`{"domain": "lab", "hits_addend": 3, "descriptors": [` + ann + `]}`)); got != "V" {
		t.Errorf("refunds beyond what was taken made room for %s; want the limit to stay", got)
	}
}

func TestACallsOwnLimitIsAStateOfItsOwn(t *testing.T) {
	d := open(t, outcomes, nil)
	ann := one("uid", "ann")
	annOf := func(limit string) string { return one("uid", "ann", `"limit": `+limit) }
	one3 := annOf(`{"requests_per_unit": 1, "unit": "MINUTE"}`)
	for i, step := range []struct{ ask, codes string }{
		{one3, "O"},
		{one3, "V"},
		{annOf(`{"requests_per_unit": 1, "unit": "HOUR"}`), "O"}, // another limit is another state
		{ann, "O"},
		{ann, "O"},
		{ann, "V"}, // and the rule's own is untouched
		{one("other", "x", `"limit": {"requests_per_unit": 1, "unit": "MINUTE"}`), "O"},
		{one("other", "y", `"limit": {"requests_per_unit": 1, "unit": "MINUTE"}`), "O"},
		{one("other", "x", `"limit": {"requests_per_unit": 1, "unit": "MINUTE"}`), "V"},
	} {
		if got := codesOf(d.ask(step.ask)); got != step.codes {
			t.Errorf("step %d, %s: %s; want %s", i, step.ask, got, step.codes)
		}
	}
	elsewhere := d.askFor(`{"domain": "elsewhere", "descriptors": [` + one("other", "x", `"limit": {"requests_per_unit": 1, "unit": "MINUTE"}`) + `]}`)
	if codesOf(elsewhere) != "O" {
		t.Error("two domains share the state of a limit that meets no rule")
	}
}

func TestADayOfACallsOwnIsTheCalendarDay(t *testing.T) {
	for limit, want := range map[string]int64{
		`{"requests_per_unit": 1, "unit": "DAY"}`:                         43200,
		`{"requests_per_unit": 1, "unit": "HOUR", "unit_multiplier": 24}`: 43200,
		`{"requests_per_unit": 1, "unit": "DAY", "unit_multiplier": 2}`:   172800,
		`{"requests_per_unit": 1, "unit": "HOUR", "unit_multiplier": 25}`: 90000,
	} {
		reply := open(t, outcomes, nil).ask(one("other", "x", `"limit": `+limit))
		if got := reply.Statuses[0].DurationUntilReset.GetSeconds(); got != want {
			t.Errorf("%s: resets in %d s at noon; want %d", limit, got, want)
		}
	}
}

func TestTheResetIsRoundedUp(t *testing.T) {
	d := open(t, outcomes, nil)
	d.ask(one("uid", "ann"))
	for _, step := range []struct {
		pass time.Duration
		want int64
	}{{1 * time.Millisecond, 90}, {998 * time.Millisecond, 90}, {1 * time.Millisecond, 89}, {88*time.Second + 999*time.Millisecond, 1}} {
		d.clock.pass(step.pass)
		if got := d.ask(one("uid", "ann", `"hits_addend": "0"`)).Statuses[0].DurationUntilReset.GetSeconds(); got != step.want {
			t.Errorf("%v later the reset is in %d s; want %d", step.pass, got, step.want)
		}
	}
}

func TestDomainsAreAsFarApartAsTheRulesSay(t *testing.T) {
	d := open(t, outcomes, nil)
	d.askFor(`{"domain": "other", "descriptors": [` + one("tenant", "a") + `]}`)
	if got := codesOf(d.askFor(`{"domain": "other", "descriptors": [` + one("tenant", "a") + `]}`)); got != "V" {
		t.Errorf("the rule of its domain: %s; want it refused", got)
	}
	reply := d.askFor(`{"domain": "nobody", "descriptors": [` + one("tenant", "a") + `]}`)
	if codesOf(reply) != "O" || reply.Statuses[0].CurrentLimit != nil {
		t.Errorf("an unknown domain: %v; want OK without a limit", reply)
	}
	denying := open(t, strings.Replace(outcomes, `0 : {"Err_no":0}`, `0 : {"Err_no":1}`, 1), nil)
	if got := codesOf(denying.ask(one("nobody", "x"))); got != "V" {
		t.Errorf("nothing matched, and entry 0 denies: %s; want OVER_LIMIT", got)
	}
}

func TestRefusedArgumentsChangeNoCounter(t *testing.T) {
	d := open(t, outcomes, nil)
	for _, json := range []string{
		`{"domain": "lab", "descriptors": [` + one("uid", "ann") + `, {"hits_addend": "2147483649"}]}`,
		`{"domain": "lab", "descriptors": [` + one("uid", "ann") + `, {"limit": {"requests_per_unit": 1}}]}`,
		`{"domain": "lab", "hits_addend": 3, "descriptors": [` + one("uid", "ann") + `, ` + one("dear", "999999999") + `]}`,
		`{"domain": "", "descriptors": [` + one("uid", "ann") + `]}`,
	} {
		if _, err := d.call(request(t, json)); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v; want InvalidArgument", json, err)
		}
	}
	if got := d.ask(one("uid", "ann")).Statuses[0].LimitRemaining; got != 1 {
		t.Errorf("%d remaining after the first call that is valid; want 1", got)
	}
}

func TestResponseHeadersAreASetting(t *testing.T) {
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
		// The first descriptor meets no rule: the headers are of the other.
		for _, h := range d.ask(one("other", "x"), one("uid", "ann")).ResponseHeadersToAdd {
			got = append(got, h.Key+": "+h.Value)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("call %d, -want +got:\n%s", i, diff)
		}
	}
}

func TestAStoreThatIsAwayIsUnavailable(t *testing.T) {
	d := open(t, outcomes, func(o *ratelimit.Options) { o.Engine = engine.New(away{}, parse(t, outcomes)) })
	if _, err := d.call(request(t, `{"domain": "lab", "descriptors": [`+one("uid", "ann")+`]}`)); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v; want Unavailable", err)
	}
}

func TestACallThatTimesOutIsAnErrorAndNoDecision(t *testing.T) {
	server := ratelimit.New(ratelimit.Options{Engine: engine.New(store.NewMemory(store.MemoryOptions{}), parse(t, outcomes))})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	reply, err := server.ShouldRateLimit(ctx, request(t, `{"domain": "lab", "descriptors": [`+one("uid", "ann")+`]}`))
	if reply != nil || status.Code(err) != codes.Canceled {
		t.Errorf("got %v, %v; want Canceled", reply, err)
	}
}

func TestManyCallersGetExactlyTheLimit(t *testing.T) {
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
