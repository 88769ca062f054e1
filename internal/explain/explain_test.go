package explain_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/explain"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/rules"
)

const results = `[result]
0 : {"Err_no":0, "Str_reason":"Allow"}
1 : {"Err_no":0, "Str_reason":"Allow"}
2 : {"Err_no":10, "Str_reason":"Deny"}
`

func parse(t *testing.T, text string) *rules.Set {
	t.Helper()
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text + results)}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	return set
}

func answer(t *testing.T, set *rules.Set, o explain.Options) *explain.Report {
	t.Helper()
	q, err := explain.New(o)
	if err != nil {
		t.Fatal(err)
	}
	report, err := q.Answer(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func entries(pairs ...string) []mapping.Entry {
	var list []mapping.Entry
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, mapping.Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return list
}

// outcomes returns the outcome of each rule.
func outcomes(r *explain.Report) []string {
	var list []string
	for i := range r.Rules {
		list = append(list, r.Rules[i].Outcome)
	}
	return list
}

const everyOutcome = `[rules]
rule : [direct] [uid=bob] [] [result=2; return=100]
rule : [count] [act=vote; uid=+] [time=60; count=1] [result=2; return=101; shadow=1]
rule : [count] [act=vote{~}] [time=60; count=5; cost=size] [result=2; return=102]
rule : [token] [uid=+] [time=60; count=1; burst=2] [result=2; return=103]
rule : [leak] [uid=+] [time=60; count=9] [result=2; return=104]
`

func TestAnswerReportsEveryOutcome(t *testing.T) {
	set := parse(t, everyOutcome)
	got := answer(t, set, explain.Options{Params: entries("act", "vote", "uid", "ann", "size", "1"), Hits: 3})
	want := &explain.Report{
		Params: []explain.Param{{Name: "act", Value: "vote"}, {Name: "uid", Value: "ann"}, {Name: "size", Value: "1"}},
		Rules: []explain.Rule{
			{Return: 100, File: "rules.conf", Line: 2, Method: "direct", Limit: "direct", Outcome: explain.NotMet, Result: 2, Failed: []explain.Condition{{Condition: "uid=bob", Name: "uid", Value: "ann"}}},
			{Return: 101, File: "rules.conf", Line: 3, Method: "count", Limit: "at most 1 in 60 s", Outcome: explain.Shadow, Cost: 1, Result: 2, Would: "deny", CountedFor: []explain.Param{{Name: "act", Value: "vote"}, {Name: "uid", Value: "ann"}}},
			{Return: 102, File: "rules.conf", Line: 4, Method: "count", Limit: "at most 5 in 60 s", Outcome: explain.Passes, Cost: 1, Result: 2},
			{Return: 103, File: "rules.conf", Line: 5, Method: "token", Limit: "a bucket of 2, refilled with 1 in 60 s", Outcome: explain.Decides, Cost: 1, Result: 2, CountedFor: []explain.Param{{Name: "uid", Value: "ann"}}},
			{Return: 104, File: "rules.conf", Line: 6, Method: "leak", Limit: "at most 9 in any 60 s", Outcome: explain.NotReached, Cost: 1, Result: 2, CountedFor: []explain.Param{{Name: "uid", Value: "ann"}}},
		},
		Decision: &explain.Decision{Verdict: "deny", Result: 2, Reason: "Deny", Decider: 103, Matched: true, Status: 429},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(explain.Rule{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAnswerCountsNothing(t *testing.T) {
	set := parse(t, "[rules]\nrule : [count] [uid=+] [time=60; count=1] [result=2; return=1]\n")
	q, err := explain.New(explain.Options{Params: entries("uid", "7"), Hits: 1, Now: 1780286400000})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		report, err := q.Answer(t.Context(), set)
		if err != nil {
			t.Fatal(err)
		}
		if want := (&explain.Quota{Return: 1, Remaining: 1, Limit: 1}); report.Decision.Verdict != "allow" || *report.Decision.Nearest != *want {
			t.Errorf("%+v %+v; want %+v", report.Decision, report.Decision.Nearest, want)
		}
	}
}

func TestAnswerFails(t *testing.T) {
	set := parse(t, everyOutcome)
	q, err := explain.New(explain.Options{Params: entries("act", "vote", "uid", "ann"), Hits: 1 << 60})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Answer(t.Context(), set); err == nil || !strings.Contains(err.Error(), "1152921504606846976 hits") {
		t.Errorf("too many hits: %v", err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if q, err = explain.New(explain.Options{Params: entries("act", "vote", "uid", "ann")}); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Answer(canceled, set); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// doorRules has a parameter for each kind of source.
const doorRules = `[params]
uid  : header X-User-Id else client-ip
tier : gateway
sub  : metadata jwt payload.sub
cert : principal
name : sni
[routes]
POST /vote : act=vote
[rules]
rule : [count] [act=vote; uid=+] [time=60; count=5] [result=2; return=1]
`

func TestParamsHaveTheirOrigins(t *testing.T) {
	set := parse(t, doorRules)
	ann := http.Header{"X-User-Id": {"ann"}}
	for _, c := range []struct {
		name    string
		options explain.Options
		want    []string // NAME=VALUE ORIGIN
	}{
		{
			"Envoy over gRPC",
			explain.Options{
				Method: "POST", Target: "https://shop.example/vote?page=1", Headers: ann, Peer: "203.0.113.7", Params: entries("tier", "gold"),
				Metadata: explain.Metadata{{Namespace: "jwt", Path: "payload.sub"}: "s"}, Principal: "p", SNI: "n",
			},
			[]string{"door=extauthz derived", "ip=203.0.113.7 derived", "host=shop.example derived", "scheme=https derived", "uid=ann header x-user-id", "act=vote [routes]", "tier=gold context extension", "sub=s metadata jwt payload.sub", "cert=p principal", "name=n sni"},
		},
		{
			"Envoy over HTTP",
			explain.Options{Method: "POST", Target: "/vote", Door: doorname.ExtAuthzWeb, Peer: "203.0.113.7", Headers: http.Header{"X-Koala-Param-Tier": {"gold"}}},
			[]string{"path=/vote derived", "uid=203.0.113.7 client-ip", "tier=gold gateway"},
		},
		{
			"nginx",
			explain.Options{Method: "POST", Target: "/vote", Door: doorname.AuthRequest, Peer: "203.0.113.7", Params: entries("tier", "gold")},
			[]string{"method=POST derived", "tier=gold argument of the check"},
		},
		{
			"Caddy with a proxy",
			explain.Options{Method: "GET", Target: "/", Door: doorname.ForwardAuth, Headers: http.Header{"X-Forwarded-For": {"192.0.2.6, 203.0.113.7, 10.0.0.1"}}, TrustedHops: 1},
			[]string{"ip=203.0.113.7 derived"},
		},
		{"rate limit service", explain.Options{Door: doorname.RateLimit, Params: entries("domain", "edge", "key", "v")}, []string{"domain=edge descriptor", "key=v descriptor"}},
		{"Koala", explain.Options{Door: doorname.Koala, Params: entries("act", "vote")}, []string{"act=vote argument"}},
		{"Go", explain.Options{Method: "GET", Target: "/", Door: doorname.Middleware, Peer: "[2001:db8::7]:80", Params: entries("uid", "ann")}, []string{"uid=ann parameter of the program"}},
		{"malformed path", explain.Options{Method: "GET", Target: "/100%", KeepMalformedPaths: true}, []string{"path=/100%25 derived"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			report := answer(t, set, c.options)
			var got []string
			for _, p := range report.Params {
				got = append(got, p.Name+"="+p.Value+" "+p.From)
			}
			for _, want := range c.want {
				if !slices.Contains(got, want) {
					t.Errorf("%q is missing in %q", want, got)
				}
			}
		})
	}
}

func TestAbsentParamsNameTheirSources(t *testing.T) {
	report := answer(t, parse(t, doorRules), explain.Options{Method: "GET", Target: "/"})
	want := []explain.Param{
		{Name: "uid", From: "header x-user-id else client-ip"},
		{Name: "tier", From: "gateway"},
		{Name: "sub", From: "metadata jwt payload.sub"},
		{Name: "cert", From: "principal"},
		{Name: "name", From: "sni"},
	}
	if diff := cmp.Diff(want, report.Absent); diff != "" {
		t.Error(diff)
	}
}

func TestRefusedRequestsReachNoRule(t *testing.T) {
	report := answer(t, parse(t, doorRules), explain.Options{Method: "GET", Target: "/%zz"})
	if report.Refused == nil || report.Refused.Status != 400 || report.Decision != nil || len(report.Rules) > 0 {
		t.Errorf("%+v", report)
	}
	var b strings.Builder
	report.WriteText(&b, explain.TextOptions{})
	if !strings.Contains(b.String(), "verdict: deny before any rule, HTTP status 400: malformed path: ") {
		t.Error(b.String())
	}
	b.Reset()
	if err := report.WriteJSON(&b); err != nil || !json.Valid([]byte(b.String())) || !strings.Contains(b.String(), `"rules": []`) {
		t.Error(b.String(), err)
	}
}

func TestNewRejectsContradictions(t *testing.T) {
	get := func(door string, change func(*explain.Options)) explain.Options {
		o := explain.Options{Method: "GET", Target: "/", Door: door, Peer: "203.0.113.7"}
		change(&o)
		return o
	}
	for want, o := range map[string]explain.Options{
		"duplicate parameter act":                                {Params: entries("act", "a", "act", "b")},
		"need a request; set --request 'METHOD /path' or --door": {Headers: http.Header{"X": {"y"}}},
		"only the door extauthz receives metadata":               get(doorname.AuthRequest, func(o *explain.Options) { o.SNI = "a" }),
		"the door ratelimit receives no request":                 get(doorname.RateLimit, func(*explain.Options) {}),
		"the door koala receives no request":                     {Door: doorname.Koala, TrustedHops: 1},
		"the door accel receives a request":                      {Door: doorname.Accel},
		"the door ext-authz receives parameters in headers":      get(doorname.ExtAuthzWeb, func(o *explain.Options) { o.Params = entries("a", "b") }),
		`invalid peer "localhost"`:                               get("", func(o *explain.Options) { o.Peer = "localhost" }),
		"--trusted-hops 33 is out of range; want 0 … 32":         get(doorname.ForwardAuth, func(o *explain.Options) { o.TrustedHops = 33 }),
		"--trusted-hops -1 is out of range":                      get(doorname.ForwardAuth, func(o *explain.Options) { o.TrustedHops = -1 }),
		"the door extauthz does not read X-Forwarded-For":        get("", func(o *explain.Options) { o.TrustedHops = 1 }),
		"add -H 'X-Forwarded-For: CLIENT, PROXY'":                get(doorname.ForwardAuth, func(o *explain.Options) { o.TrustedHops = 1 }),
		"gateways of the door auth-request send the client's":    get(doorname.AuthRequest, func(o *explain.Options) { o.Peer = "" }),
	} {
		if _, err := explain.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v; want %q", err, want)
		}
	}
}

func TestNewLeavesHeadersUnchanged(t *testing.T) {
	headers := http.Header{"X-User-Id": {"ann"}}
	if _, err := explain.New(explain.Options{Method: "GET", Target: "/", Door: doorname.ForwardAuth, Peer: "203.0.113.7", Headers: headers}); err != nil {
		t.Fatal(err)
	}
	if len(headers) != 1 {
		t.Errorf("New changed the headers: %v", headers)
	}
}

func TestHintsFindTypos(t *testing.T) {
	set := parse(t, "[rules]\nrule : [count] [comment_id=+; uid=+] [time=60; count=5; cost=bytes] [result=2; return=1]\n")
	for _, c := range []struct {
		options explain.Options
		want    []string
	}{
		{explain.Options{Params: entries("coment_id", "1", "uid", "7", "byts", "3", "ip", "x", "colour", "red")}, []string{
			"no rule uses the parameter coment_id; did you mean comment_id?", "no rule uses the parameter byts; did you mean bytes?",
		}},
		{explain.Options{Params: entries("comment_id", "1", "comment_ip", "2")}, nil},
		{explain.Options{Method: "post", Target: "/"}, []string{"the method post differs from POST; methods are case-sensitive"}},
	} {
		q, err := explain.New(c.options)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, q.Hints(set)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestTextOfManyRulesShowsTheNearest(t *testing.T) {
	var text strings.Builder
	text.WriteString("[rules]\n")
	for i := range 30 {
		text.WriteString("rule : [direct] [act=a" + strings.Repeat("x", i) + "; uid=+] [] [result=2; return=" + string(rune('1'+i/10)) + string(rune('0'+i%10)) + "]\n")
	}
	set := parse(t, text.String()+"rule : [direct] [act=vote; post=+] [] [result=2; return=99]\nrule : [direct] [act=vote] [] [result=1; return=100]\n")
	report := answer(t, set, explain.Options{Params: entries("act", "vote", "uid", "7")})
	if got := outcomes(report); len(got) != 32 || got[31] != explain.Decides {
		t.Fatalf("the report has the outcomes %q", got)
	}
	for all, want := range map[bool]int{true: 31, false: 10} {
		var b strings.Builder
		report.WriteText(&b, explain.TextOptions{All: all})
		if got := strings.Count(b.String(), ": not met: "); got != want || !strings.Contains(b.String(), "rule 99 ") {
			t.Errorf("all=%v: %d rules that are not met; want %d, and rule 99 among them:\n%s", all, got, want, &b)
		}
		if strings.Contains(b.String(), "21 more rules are not met") == all {
			t.Errorf("all=%v:\n%s", all, &b)
		}
	}
}
