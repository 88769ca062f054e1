package extauthz_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/extauthz"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/wire/wiretest"
	"github.com/koalagate/koalagate/internal/wiring"
)

const outcomes = `
[rules]
rule : [direct] [act=black] [time=1; count=0;] [result=2; return=10]
rule : [direct] [act=white] [time=1; count=0;] [result=1; return=11]
rule : [direct] [act=robot] [time=1; count=0;] [result=3; return=12]
rule : [direct] [act=own] [time=1; count=0;] [result=4; return=13]
rule : [count] [act=vote; uid=+] [time=90; count=1;] [result=2; return=201]
rule : [count] [act=quiet; uid=+] [time=90; count=1;] [result=2; return=202; quiet=1]
rule : [count] [act=trial; uid=+] [time=90; count=1;] [result=2; return=203; shadow=1]
rule : [count] [act=post; uid=+] [time=90; count=1;] [result=3; return=204]
rule : [count] [act=soft; uid=+] [time=90; count=1;] [result=2; return=206; mark=slow; quiet=1]
rule : [token] [act=soft; uid=+] [time=90; count=1;] [result=2; return=207; mark=cheap; quiet=1]
rule : [count] [act=soft; uid=+] [time=90; count=2;] [result=2; return=208; quiet=1]
rule : [count] [act=teapot; uid=+] [time=90; count=1;] [result=4; return=205]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10, "Err_msg":"slow down"}
3 : {"Need_vcode":1, "Vcode_len":4, "Vcode_type":2}
4 : {"Err_no":11, "Http_status":418, "Grpc_status":9, "Headers":{"X-Tea":"pot", "Content-Type":"text/tea"}, "Body":"short and stout"}
`

// TestCompleteReplies compares complete replies of every kind.
func TestCompleteReplies(t *testing.T) {
	const draft10 = `"append_action": "OVERWRITE_IF_EXISTS_OR_ADD"`
	header := func(name, value string) string {
		return fmt.Sprintf(`{"header": {"key": %q, "value": %q}, %s}`, name, value, draft10)
	}
	list := func(headers ...string) string { return "[" + strings.Join(headers, ", ") + "]" }
	for name, test := range map[string]struct {
		act  string
		asks int
		want string
	}{
		"no rule matched": {"other", 1, `{"status": {}, "ok_response": {
			"headers": ` + list(header("X-Koala-Decision", "none"), header("X-Koala-Result", "0")) + `,
			"headers_to_remove": ["X-Koala-Rule", "X-Koala-Degraded", "X-Koala-Receipt", "X-Koala-Mark"],
			"response_headers_to_add": ` + list(header("X-Koala-Decision", "none"), header("X-Koala-Result", "0")) + `},
			"dynamic_metadata": {"verdict": "none", "result": 0}}`},
		"admitted by a counter": {"vote", 1, `{"status": {}, "ok_response": {
			"headers": ` + list(header("X-Koala-Decision", "allow"), header("X-Koala-Result", "1")) + `,
			"headers_to_remove": ["X-Koala-Rule", "X-Koala-Degraded", "X-Koala-Receipt", "X-Koala-Mark"],
			"response_headers_to_add": ` + list(header("X-Koala-Decision", "allow"), header("X-Koala-Result", "1"),
			header("RateLimit-Policy", `"r201";q=1;w=90`), header("RateLimit", `"r201";r=0;t=90`)) + `},
			"dynamic_metadata": {"verdict": "allow", "result": 1, "limit": 1, "remaining": 0, "reset": 90}}`},
		"refused by a counter": {"vote", 2, `{"status": {"code": 8}, "denied_response": {
			"status": {"code": "TooManyRequests"},
			"headers": ` + list(header("X-Koala-Decision", "deny"), header("X-Koala-Rule", "201"), header("X-Koala-Result", "2"),
			header("RateLimit-Policy", `"r201";q=1;w=90`), header("RateLimit", `"r201";r=0;t=90`), header("Retry-After", "90"),
			header("Content-Type", "application/problem+json")) + `,
			"body": "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\",\"title\":\"Quota exceeded\",\"status\":429,\"detail\":\"slow down\",\"violated-policies\":[\"r201\"]}"},
			"dynamic_metadata": {"verdict": "deny", "rule": 201, "result": 2, "limit": 1, "remaining": 0, "reset": 90}}`},
		"on the black list": {"black", 1, `{"status": {"code": 7}, "denied_response": {
			"status": {"code": "Forbidden"},
			"headers": ` + list(header("X-Koala-Decision", "deny"), header("X-Koala-Rule", "10"), header("X-Koala-Result", "2"),
			header("Content-Type", "application/problem+json")) + `,
			"body": "{\"type\":\"about:blank\",\"title\":\"Forbidden\",\"status\":403,\"detail\":\"slow down\"}"},
			"dynamic_metadata": {"verdict": "deny", "rule": 10, "result": 2}}`},
		"on the white list": {"white", 1, `{"status": {}, "ok_response": {
			"headers": ` + list(header("X-Koala-Decision", "allow"), header("X-Koala-Rule", "11"), header("X-Koala-Result", "1")) + `,
			"headers_to_remove": ["X-Koala-Degraded", "X-Koala-Receipt", "X-Koala-Mark"],
			"response_headers_to_add": ` + list(header("X-Koala-Decision", "allow"), header("X-Koala-Rule", "11"), header("X-Koala-Result", "1")) + `},
			"dynamic_metadata": {"verdict": "allow", "rule": 11, "result": 1}}`},
		"challenged": {"robot", 1, `{"status": {"code": 7}, "denied_response": {
			"status": {"code": "Forbidden"},
			"headers": ` + list(header("X-Koala-Decision", "challenge"), header("X-Koala-Rule", "12"), header("X-Koala-Result", "3"),
			header("Content-Type", "application/problem+json")) + `,
			"body": "{\"type\":\"about:blank\",\"title\":\"Forbidden\",\"status\":403,\"challenge\":{\"vcode_len\":4,\"vcode_type\":2}}"},
			"dynamic_metadata": {"verdict": "challenge", "rule": 12, "result": 3}}`},
		"in an entry's own words": {"own", 1, `{"status": {"code": 9}, "denied_response": {
			"status": {"code": 418},
			"headers": ` + list(header("X-Koala-Decision", "deny"), header("X-Koala-Rule", "13"), header("X-Koala-Result", "4"),
			header("X-Tea", "pot"), header("Content-Type", "text/tea")) + `,
			"body": "short and stout"},
			"dynamic_metadata": {"verdict": "deny", "rule": 13, "result": 4}}`},
		"a quiet rule's limits stay at the gateway": {"quiet", 1, `{"status": {}, "ok_response": {
			"headers": ` + list(header("X-Koala-Decision", "allow"), header("X-Koala-Result", "1")) + `,
			"headers_to_remove": ["X-Koala-Rule", "X-Koala-Degraded", "X-Koala-Receipt", "X-Koala-Mark"],
			"response_headers_to_add": ` + list(header("X-Koala-Decision", "allow"), header("X-Koala-Result", "1")) + `},
			"dynamic_metadata": {"verdict": "allow", "result": 1, "limit": 1, "remaining": 0, "reset": 90}}`},
		"a shadow rule is reported to the gateway only": {"trial", 2, `{"status": {}, "ok_response": {
			"headers": ` + list(header("X-Koala-Decision", "allow"), header("X-Koala-Result", "1")) + `,
			"headers_to_remove": ["X-Koala-Rule", "X-Koala-Degraded", "X-Koala-Receipt", "X-Koala-Mark"],
			"response_headers_to_add": ` + list(header("X-Koala-Decision", "allow"), header("X-Koala-Result", "1")) + `},
			"dynamic_metadata": {"verdict": "allow", "result": 1, "shadow": [203]}}`},
		"marked for the application": {"soft", 2, `{"status": {}, "ok_response": {
			"headers": ` + list(header("X-Koala-Decision", "allow"), header("X-Koala-Result", "1"), header("X-Koala-Mark", "slow, cheap")) + `,
			"headers_to_remove": ["X-Koala-Rule", "X-Koala-Degraded", "X-Koala-Receipt"],
			"response_headers_to_add": ` + list(header("X-Koala-Decision", "allow"), header("X-Koala-Result", "1")) + `},
			"dynamic_metadata": {"verdict": "allow", "result": 1, "limit": 1, "remaining": 0, "reset": 90, "marks": ["slow", "cheap"]}}`},
		"marked and refused": {"soft", 3, `{"status": {"code": 8}, "denied_response": {
			"status": {"code": "TooManyRequests"},
			"headers": ` + list(header("X-Koala-Decision", "deny"), header("X-Koala-Rule", "208"), header("X-Koala-Result", "2"),
			header("Retry-After", "90"), header("Content-Type", "application/problem+json")) + `,
			"body": "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\",\"title\":\"Quota exceeded\",\"status\":429,\"detail\":\"slow down\",\"violated-policies\":[\"r208\"]}"},
			"dynamic_metadata": {"verdict": "deny", "rule": 208, "result": 2, "limit": 2, "remaining": 0, "reset": 90, "marks": ["slow", "cheap"]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			door := open(t, outcomes, func(o *extauthz.Options) { o.Presentation.Quota = engine.QuotaDraft10 })
			var got *authv3.CheckResponse
			for range test.asks {
				got = ask(t, door, about(test.act, nil))
			}
			want := new(authv3.CheckResponse)
			if err := protojson.Unmarshal([]byte(test.want), want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// names returns the headers of a list by lower-case name.
func names(list []*corev3.HeaderValueOption) map[string]string {
	m := map[string]string{}
	for _, o := range list {
		m[strings.ToLower(o.Header.Key)] = o.Header.Value
	}
	return m
}

func TestForgedHeadersDoNotReachTheUpstream(t *testing.T) {
	door := open(t, outcomes, nil)
	reply := ask(t, door, about("vote", map[string]string{
		"x-koala-decision": "allow", "x-koala-rule": "1", "x-koala-result": "1", "x-koala-degraded": "1",
		"x-koala-param-act": "admin", "x-koala-": "", "x-koalas": "stay", "x-user": "ann",
		"x_koala_rule": "1", "x-koala_result": "1",
	})).GetOkResponse()
	set := names(reply.GetHeaders())
	removed := map[string]bool{}
	for _, name := range reply.GetHeadersToRemove() {
		removed[strings.ToLower(name)] = true
	}
	for _, name := range []string{"x-koala-decision", "x-koala-rule", "x-koala-result", "x-koala-degraded", "x-koala-receipt", "x-koala-mark", "x-koala-param-act", "x_koala_rule", "x-koala_result"} {
		_, isSet := set[name]
		if isSet == removed[name] {
			t.Errorf("%s: overwritten %v, removed %v; want one of them", name, isSet, removed[name])
		}
	}
	for _, name := range []string{"x-koalas", "x-user"} {
		if removed[name] {
			t.Errorf("%s is removed; it is not ours", name)
		}
	}
	if got := len(reply.GetHeadersToRemove()); got != 7 {
		t.Errorf("%d headers to remove: %q; want each once", got, reply.GetHeadersToRemove())
	}
}

func TestHiddenDecisionReachesTheUpstream(t *testing.T) {
	door := open(t, outcomes, func(o *extauthz.Options) {
		o.Presentation = engine.Presentation{Quota: engine.QuotaNone, HideDecision: true}
	})
	ok := ask(t, door, about("vote", nil)).GetOkResponse()
	if len(ok.GetResponseHeadersToAdd()) != 0 {
		t.Errorf("the client receives %v; want nothing", ok.GetResponseHeadersToAdd())
	}
	if names(ok.GetHeaders())["x-koala-decision"] != "allow" {
		t.Errorf("the upstream receives %v; want the decision", ok.GetHeaders())
	}
	denied := ask(t, door, about("vote", nil)).GetDeniedResponse()
	got := slices.Sorted(maps.Keys(names(denied.GetHeaders())))
	if diff := cmp.Diff([]string{"content-type", "retry-after"}, got); diff != "" {
		t.Errorf("the refused client's headers, -want +got:\n%s", diff)
	}
}

func TestDenyingEntryZeroDeniesUnmatchedChecks(t *testing.T) {
	door := open(t, strings.Replace(outcomes, `0 : {"Err_no":0}`, `0 : {"Err_no":1}`, 1), nil)
	reply := ask(t, door, about("other", nil))
	if reply.GetDeniedResponse().GetStatus().GetCode() != 403 {
		t.Errorf("the reply is %v; want a 403", reply)
	}
}

func TestMalformedPathIsDenied(t *testing.T) {
	check := about("vote", nil)
	check.Attributes.Request.Http.Path = "/a%zz"
	reply := ask(t, open(t, outcomes, nil), check)
	denied := reply.GetDeniedResponse()
	if denied.GetStatus().GetCode() != 400 || !strings.Contains(denied.GetBody(), `"status":400`) {
		t.Errorf("the reply is %v; want a 400 with a problem document", reply)
	}
	if names(denied.GetHeaders())["content-type"] != "application/problem+json" {
		t.Errorf("its headers are %v", denied.GetHeaders())
	}
	keep := open(t, outcomes, func(o *extauthz.Options) { o.Mapping = mapping.Options{KeepMalformed: true} })
	if reply := ask(t, keep, check); reply.GetOkResponse() == nil {
		t.Errorf("with malformed paths kept: %v; want a decision", reply)
	}
}

// Envoy cannot parse a reply with a string that is not UTF-8, and would allow the
// request.
func TestClientInputCannotBreakTheReply(t *testing.T) {
	const odd = "\xffa\xc0\xafz"
	for name, test := range map[string]struct{ act, path string }{
		"admitted": {"vote", "/BYTES"}, "refused": {"black", "/BYTES"}, "for a gRPC client": {"own", "/BYTES"}, "malformed": {"vote", "/%zzBYTES"},
	} {
		check := about(test.act, map[string]string{"x-koala-BYTES": "BYTES", "x-koala-rule": "BYTES", "content-type": "application/grpc+BYTES"})
		check.Attributes.Request.Http.Path = test.path
		door := wiretest.Open(extauthz.New(extauthz.Options{Engine: engine.New(parse(t, outcomes), wiring.CountIn(fixedStore()))}))
		answered, err := door.Call(deadline(t), bytes.ReplaceAll(wiretest.Marshal(t, check), []byte("BYTES"), []byte(odd)))
		reply := new(authv3.CheckResponse)
		if err != nil || proto.Unmarshal(answered, reply) != nil {
			t.Fatalf("%s: %q, %v; want a reply that can be read", name, answered, err)
		}
		if fault := malformed(reply); fault != "" {
			t.Errorf("%s: %s: %v", name, fault, reply)
		}
		if isOK := reply.GetOkResponse() != nil; isOK != (name == "admitted") {
			t.Errorf("%s: the reply is %v", name, reply)
		}
	}
}

func TestUnavailableStoreLeavesTheDecisionToTheGateway(t *testing.T) {
	door := openOn(t, storetest.Failing{Err: errors.New("connection refused")}, outcomes, nil)
	reply := ask(t, door, about("vote", nil))
	e := reply.GetErrorResponse()
	if e.GetStatus().GetCode() != 503 || reply.Status.Code != int32(codes.Unavailable) {
		t.Errorf("the reply is %v; want an error_response of 503", reply)
	}
	if reply := ask(t, door, about("black", nil)); reply.GetDeniedResponse() == nil {
		t.Errorf("a rule without a counter needs no store, but got %v", reply)
	}
}

func TestRescueIsReported(t *testing.T) {
	door := openOn(t, storetest.Degraded{Store: fixedStore()}, outcomes, nil)
	ok := ask(t, door, about("vote", nil))
	if names(ok.GetOkResponse().GetResponseHeadersToAdd())["x-koala-degraded"] != "1" || !ok.DynamicMetadata.Fields["degraded"].GetBoolValue() {
		t.Errorf("the reply does not report degraded: %v", ok)
	}
	denied := ask(t, door, about("vote", nil))
	if names(denied.GetDeniedResponse().GetHeaders())["x-koala-degraded"] != "1" {
		t.Errorf("the refusal does not report degraded: %v", denied)
	}
}

func TestTimeoutIsAnErrorNotADecision(t *testing.T) {
	s := &slow{}
	door := wiretest.Open(extauthz.New(extauthz.Options{Engine: engine.New(parse(t, outcomes), wiring.CountIn(s))}))
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	reply, err := door.Call(ctx, wiretest.Marshal(t, about("vote", nil)))
	if reply != nil || status.Code(err) != codes.DeadlineExceeded || s.calls.Load() != 1 {
		t.Errorf("got %v, %v after %d calls; want DeadlineExceeded", reply, err, s.calls.Load())
	}
}

func TestReloadAppliesToTheNextCheck(t *testing.T) {
	e := engine.New(parse(t, outcomes), wiring.CountIn(memory.New(memory.Options{})))
	door := open(t, outcomes, func(o *extauthz.Options) { o.Engine = e })
	if ask(t, door, about("black", nil)).GetDeniedResponse() == nil {
		t.Fatal("the black list does not deny")
	}
	e.Swap(parse(t, strings.ReplaceAll(outcomes, "act=black", "act=grey")))
	if ask(t, door, about("black", nil)).GetOkResponse() == nil {
		t.Error("the old rules still hold after the swap")
	}
}
