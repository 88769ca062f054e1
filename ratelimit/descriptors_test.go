package ratelimit_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/koalagate/koalagate/engine"
)

func TestDescriptorsAreDecidedInOneStep(t *testing.T) {
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

func TestReplyReportsTheDecidingDescriptor(t *testing.T) {
	d := open(t, outcomes, nil)
	reply := d.ask(one("day", "x"), one("other", "x"), one("act", "black"), one("act", "own"))
	if got := reply.DynamicMetadata.Fields["descriptor"].GetNumberValue(); got != 2 {
		t.Errorf("the metadata is of descriptor %v; want the first that is refused, 2", got)
	}
	if !strings.Contains(string(reply.RawBody), "slow down") {
		t.Errorf("the body is %s; want the body of the first descriptor that is refused", reply.RawBody)
	}
	reply = d.ask(one("other", "x"), one("uid", "ann"), one("day", "x"))
	if got := reply.DynamicMetadata.Fields["descriptor"].GetNumberValue(); got != 2 {
		t.Errorf("the metadata is of descriptor %v; want the one with the least remaining, 2", got)
	}
}

// The metadata lists the shadow rules of all descriptors, whichever descriptor it
// otherwise reports.
func TestShadowRulesOfAllDescriptorsAreReported(t *testing.T) {
	d := open(t, outcomes, nil)
	for i, want := range [][]any{{14.0}, {207.0, 14.0}} {
		reply := d.ask(one("uid", "ann"), one("trial", "x"), one("trial", "y"))
		if got := reply.DynamicMetadata.AsMap()["shadow"]; reply.OverallCode != ok || !cmp.Equal(got, any(want)) {
			t.Errorf("call %d: %v, the shadow rules %v; want %v", i, reply.OverallCode, got, want)
		}
	}
	if got, is := d.ask(one("other", "x")).DynamicMetadata.AsMap()["shadow"]; is {
		t.Errorf("without shadow rules, %v are reported", got)
	}
}

// The metadata lists the marks of all descriptors, each once, and no header tells them: the
// door could not remove a client's own.
func TestMarksOfAllDescriptorsAreReported(t *testing.T) {
	d := open(t, outcomes, nil)
	for i, want := range [][]any{{"late"}, {"late", "slow"}} { // the call has two hits of late
		reply := d.ask(one("late", "x"), one("soft", "x"), one("soft", "x2"), one("late", "x"))
		if got := reply.DynamicMetadata.AsMap()["marks"]; reply.OverallCode != ok || !cmp.Equal(got, any(want)) || len(reply.RequestHeadersToAdd) != 0 {
			t.Errorf("call %d: %v, the marks %v, headers %v; want %v", i, reply.OverallCode, got, reply.RequestHeadersToAdd, want)
		}
		if got := reply.Statuses[1]; got.LimitRemaining != 0 || got.CurrentLimit.GetRequestsPerUnit() != 1 {
			t.Errorf("call %d: the status of a marked descriptor is %v; want its limit, and nothing left", i, got)
		}
	}
	if got, is := d.ask(one("other", "x")).DynamicMetadata.AsMap()["marks"]; is {
		t.Errorf("without marks, %v are reported", got)
	}
}

func TestHitsAreTheWeightOfACall(t *testing.T) {
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
	// apply_on_stream_done sends this if nothing was used.
	remaining(0, `{"domain": "lab", "descriptors": [`+one("uid", "b", `"hits_addend": "0"`)+`]}`)

	over := d.askFor(`{"domain": "lab", "hits_addend": 3, "descriptors": [` + one("uid", "d") + `]}`)
	if codesOf(over) != "V" || over.Statuses[0].LimitRemaining != 2 {
		t.Errorf("three hits on a limit of two: %v; want OVER_LIMIT with both left", over)
	}
}

// Envoy lets a request pass if its call fails, so a weight that cannot be counted must be
// refused, not answered with an error.
func TestTooLargeWeightsAreOverLimitAndCountNothing(t *testing.T) {
	d := open(t, outcomes, nil)
	ann, most := one("uid", "ann"), strconv.Itoa(engine.MaxHits)
	beyond := strconv.Itoa(engine.MaxHits + 1)
	for json, want := range map[string]string{
		`[` + ann + `, {"hits_addend": "` + beyond + `"}]`:                                                                                  "OV",
		`[{"hits_addend": "18446744073709551615"}, ` + ann + `]`:                                                                            "VO",
		`[` + one("uid", "ann", `"hits_addend": "18446744073709551615"`) + `, ` + ann + `]`:                                                 "VO",
		`[` + ann + `, ` + one("dear", "999999999", `"hits_addend": "`+most+`"`) + `]`:                                                      "OV",
		`[` + ann + `, ` + one("dear", "999999999", `"hits_addend": "18446744073709551615"`) + `]`:                                          "OV",
		`[` + ann + `, ` + one("uid", "bob", `"hits_addend": "`+beyond+`"`, `"is_negative_hits": true`) + `]`:                               "OV",
		`[` + ann + `, ` + one("none", "x", `"hits_addend": "`+beyond+`"`, `"limit": {"requests_per_unit": 1, "unit": "HOUR"}`) + `]`:       "OV",
		`[` + one("uid", "ann", `"hits_addend": "`+beyond+`"`) + `, ` + one("uid", "bob", `"hits_addend": "`+beyond+`"`) + `, ` + ann + `]`: "VVO",
		`[` + ann + `, {"entries": [{"key": "koala.hits", "value": "2e+15"}]}]`:                                                             "OV",
		`[` + ann + `, ` + one("act", "black") + `, {"hits_addend": "` + beyond + `"}]`:                                                     "OVV",
	} {
		reply := d.askFor(`{"domain": "lab", "descriptors": ` + json + `}`)
		if got := codesOf(reply); got != want || reply.OverallCode != overLimit {
			t.Errorf("%s: %s, %v; want %s and OVER_LIMIT", json, got, reply.OverallCode, want)
		}
	}
	body := string(d.askFor(`{"domain": "lab", "descriptors": [{"hits_addend": "` + beyond + `"}]}`).RawBody)
	if want := `"status":429,"detail":"the weight of the request is too large"`; !strings.Contains(body, want) {
		t.Errorf("the body is %s; want %s in it", body, want)
	}
	if got := d.ask(ann).Statuses[0].LimitRemaining; got != 1 {
		t.Errorf("%d remaining after the first call that counts; want 1", got)
	}
}

func TestNegativeHitsAreRefunded(t *testing.T) {
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
		t.Errorf("after a refund: %s; want one more allowed", got)
	}
	if got := codesOf(d.ask(back, one("act", "black"))); got != "OV" {
		t.Errorf("a refund with a refusal: %s; want OK and OVER_LIMIT", got)
	}
	if got := codesOf(d.ask(ann)); got != "V" {
		t.Errorf("after that: %s; want nothing given back, as the call was refused", got)
	}
	for range 5 {
		d.ask(back)
	}
	if got := codesOf(d.askFor(`{"domain": "lab", "hits_addend": 3, "descriptors": [` + ann + `]}`)); got != "V" {
		t.Errorf("refunds beyond the hits taken allow %s; want the limit to stay", got)
	}
}

func TestLimitOfACallHasItsOwnCounter(t *testing.T) {
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

func TestDayOfACallsLimitIsTheCalendarDay(t *testing.T) {
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

func TestResetIsRoundedUp(t *testing.T) {
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

func TestRulesSeparateDomains(t *testing.T) {
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

func TestInvalidArgumentsChangeNoCounter(t *testing.T) {
	d := open(t, outcomes, nil)
	for _, json := range []string{
		`{"domain": "lab", "descriptors": [` + one("uid", "ann") + `, {"limit": {"requests_per_unit": 1}}]}`,
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
