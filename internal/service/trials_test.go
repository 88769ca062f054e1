package service

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/trial"
	"github.com/koalagate/koalagate/internal/whatif"
	"github.com/koalagate/koalagate/rules"
)

// The counts of all trials never go back, also while one trial ends and the next begins:
// Prometheus would take the difference for new calls.
func TestCountsOfTrialsNeverGoBack(t *testing.T) {
	onTrial := filepath.Join(t.TempDir(), "trial.conf")
	if err := os.WriteFile(onTrial, []byte(oneRule), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ := open(t, map[string]any{"trial": []string{onTrial}})
	set := s.app.Engine().Rules()
	stop, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for before := int64(0); ; {
			now := s.trials.counts().Requests
			if now < before {
				t.Errorf("%d requests after %d", now, before)
				return
			}
			before = now
			select {
			case <-stop:
				return
			default:
				runtime.Gosched()
			}
		}
	}()
	ann := rules.MakeParams(map[string]string{"uid": "ann"})
	for round := int64(1); round <= 30; round++ {
		if _, err := s.app.Engine().Decide(t.Context(), &engine.Call{Op: engine.Take, Inputs: []engine.Input{{Params: ann}}}); err != nil {
			t.Fatal(err)
		}
		for begin := time.Now(); s.trials.counts().Requests < round; {
			if time.Since(begin) > time.Minute {
				t.Fatalf("round %d: the trial has not decided the call within a minute", round)
			}
			time.Sleep(time.Millisecond)
		}
		if err := s.trials.begin(&trial.Report{Hash: set.Hash}, candidates{rules: set}, "trial:next", time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	<-watched
}

// What TestTrialsDeriveTheirOwnParameters tries: other sources, a table, routes and tokens.
const (
	triedInForce = `[params]
user : header X-User
tier : "basic"
[rules]
rule : [count] [user=+] [time=3600; count=1000000] [result=2; return=1]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`
	triedOnTrial = `[tokens]
main : keys.json; issuer=id; audience=api; algorithms=HS256
[tables]
plans : plans.csv
[params]
user : jwt main sub else cookie sid else descriptor user
tier : table plans.tier by user else "basic"
[routes]
GET /items/{item} : act=item
[rules]
rule : [direct] [jwt.main=invalid]   [] [result=2; return=1; name=invalid]
rule : [direct] [tier=none; user=+]  [] [result=2; return=2; name=tier]
rule : [direct] [item=banned]        [] [result=2; return=3; name=route]
rule : [count]  [user=+] [time=3600; count=1] [result=2; return=4; name=users]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`
)

// A trial derives the parameters of its own rules from the requests, at every door.
func TestTrialsDeriveTheirOwnParameters(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"in-force.conf": triedInForce, "trial.conf": triedOnTrial, "keys.json": tokenKeys, "plans.csv": "user,tier\neve,none\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, _ := open(t, map[string]any{
		"rules": []string{filepath.Join(dir, "in-force.conf")}, "trial": []string{filepath.Join(dir, "trial.conf")}, "decision_log_params": []string{"all"},
	})
	run(t, s)
	token := tokensOf(t) // valid of ann, expired, forged
	connection := dialGRPC(t, s)
	check := func(path string, headers map[string]string) {
		t.Helper()
		_, err := authv3.NewAuthorizationClient(connection).Check(t.Context(), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
			Source:  &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: "192.0.2.1"}}}},
			Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{Method: "GET", Path: path, Host: "a.example", Headers: headers}},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	forward := func(path string, headers map[string]string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Addresses().HTTP+"/v1/forward-auth", nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"X-Forwarded-Method": "GET", "X-Forwarded-Uri": path, "X-Forwarded-For": "192.0.2.1", "X-Forwarded-Host": "a.example"} {
			r.Header.Set(name, value)
		}
		for name, value := range headers {
			r.Header.Set(name, value)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%s %v: %s; the rules in force refuse nothing", path, headers, answer.Status)
		}
	}
	sent := 0
	for _, ask := range []func(path string, headers map[string]string){check, forward} {
		for _, r := range []struct {
			path    string
			headers map[string]string
		}{
			{"/", map[string]string{"authorization": "Bearer " + token[0], "x-user": "one"}}, // of ann
			{"/", map[string]string{"authorization": "bearer " + token[0], "x-user": "two"}}, // of ann, too
			{"/", map[string]string{"authorization": "Bearer " + token[2]}},                  // forged
			{"/", map[string]string{"cookie": "a=b; sid=eve"}},                               // by the table
			{"/items/banned", map[string]string{"x-user": "bob"}},                            // by the route
			{"/items/other", map[string]string{"x-user": "bob"}},
			{"/other/banned", map[string]string{"x-user": "bob"}},
		} {
			ask(r.path, r.headers)
			sent++
		}
	}
	// A call of two descriptors: the second one has another user than the first.
	descriptor := func(user string) *commonv3.RateLimitDescriptor {
		return &commonv3.RateLimitDescriptor{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "user", Value: user}}}
	}
	limits := rlsv3.NewRateLimitServiceClient(connection)
	for _, users := range [][]*commonv3.RateLimitDescriptor{{descriptor("joe"), descriptor("eve")}, {descriptor("joe")}, {descriptor("jim")}} {
		if _, err := limits.ShouldRateLimit(t.Context(), &rlsv3.RateLimitRequest{Domain: "lab", Descriptors: users}); err != nil {
			t.Fatal(err)
		}
		sent++
	}
	for begin := time.Now(); s.trials.counts().Requests < int64(sent); time.Sleep(time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("the trial has decided %+v of %d requests within a minute", s.trials.counts(), sent)
		}
	}
	report, err := s.trials.Report(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int64)
	for _, rule := range report.Rules {
		for _, identity := range rule.Identities {
			got[rule.Name+" "+identity.Identity] = identity.NewlyRefused
		}
	}
	want := map[string]int64{
		"invalid jwt.main=invalid": 2, "tier tier=none user=eve": 3, "route item=banned": 2, "users user=ann": 3,
	}
	if diff := cmp.Diff(want, got); diff != "" || report.Dropped != 0 {
		t.Errorf("newly refused (-want +got), with %d left out:\n%s", report.Dropped, diff)
	}
	_, metrics := get(t, s.Addresses().Admin, "/metrics")
	if strings.Contains(metrics, `koalagate_token_verifications_total{outcome="valid",token="main"}`) || !strings.Contains(metrics, "koalagate_token_verifications_total{") {
		t.Error("verifications of a trial are counted as those of requests")
	}
}

// Files that are on trial again after a pause find the counters in force as they are then. Meanwhile,
// instances share the counters of the trial.
func TestFilesOnTrialAgain(t *testing.T) {
	server := storetest.StartServer(t)
	path := filepath.Join(t.TempDir(), "rules.conf")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(triedInForce, "count=1000000", "count=5")), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func(tried ...string) *Service {
		s, _ := open(t, map[string]any{"redis": server.URL(), "redis_budget": "10s", "rules": []string{path}, "trial": tried})
		return s
	}
	take := func(s *Service, times int) {
		t.Helper()
		for range times {
			before := s.trials.counts()
			if _, err := s.app.Engine().Decide(t.Context(), &engine.Call{Op: engine.Take, Inputs: []engine.Input{{Params: rules.MakeParams(map[string]string{"user": "ann"})}}}); err != nil {
				t.Fatal(err)
			}
			if !before.Running {
				continue
			}
			storetest.Eventually(t, func() error {
				if now := s.trials.counts(); now.Requests == before.Requests {
					return fmt.Errorf("the trial has decided %d requests", now.Requests)
				}
				return nil
			})
		}
	}
	found := func(s *Service) whatif.Totals {
		t.Helper()
		report, err := s.trials.Report(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return report.Totals
	}
	first, second := start(path), start(path)
	take(first, 1)
	take(second, 1)
	if all := found(second); all.RefusedOnTrial != 0 || first.trials.current.space != second.trials.current.space {
		t.Errorf("%+v", all)
	}
	first.Close()
	second.Close()
	take(start(), 3)
	again := start(path)
	take(again, 2)
	if want := (whatif.Totals{Requests: 2, RefusedInForce: 2, RefusedOnTrial: 2}); found(again) != want {
		t.Errorf("%+v; want %+v", found(again), want)
	}

	// The others began with other counters while this instance could not reach Redis.
	client := server.Client()
	defer client.Close()
	keys := client.Keys(t.Context(), "*{spaces}*").Val()
	if len(keys) != 1 {
		t.Fatalf("the names of spaces are %q; want one", keys)
	}
	client.Set(t.Context(), keys[0], fmt.Sprintf("ABCDEFGHIJKL OTHER=%d", time.Now().Add(30*time.Second).UnixMilli()), time.Minute)
	again.trials.keep(t.Context())
	take(again, 1)
	if want := (whatif.Totals{Requests: 1, RefusedInForce: 1, RefusedOnTrial: 1}); found(again) != want {
		t.Errorf("with the counters of the others: %+v; want %+v", found(again), want)
	}
	if text := client.Get(t.Context(), keys[0]).Val(); !strings.HasPrefix(text, "ABCDEFGHIJKL OTHER=") || strings.Count(text, "=") != 2 {
		t.Errorf("the part of this instance is not beside the other: %q", text)
	}
}

// Logs and metrics do not see what a call charges beside its decision. Only the trial does.
func TestChargesBesideADecisionAreNotReported(t *testing.T) {
	reported := 0
	observe := newTrials(new(Service)).observing(func(*engine.Call, *engine.Decision, error) { reported++ })
	for _, unobserved := range []bool{true, false} {
		observe(&engine.Call{Op: engine.Take, Charges: true, Unobserved: unobserved}, new(engine.Decision), nil)
	}
	if reported != 1 {
		t.Errorf("%d calls are reported; want the charge alone", reported)
	}
}

// Rules on trial derive parameters from the descriptors that meet limits alone.
func TestTrialsDeriveFromDescriptorsOfLimits(t *testing.T) {
	parse := func(params string) *rules.Set {
		set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(params + "[rules]\nrule : [count] [user=+] [time=60; count=1] [result=2; return=1]\n[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10}\n")}}, rules.Options{})
		if findings.HasErrors() {
			t.Fatal(findings)
		}
		return set
	}
	o := &observer{rules: parse("[params]\nuser : descriptor name lower\n")}
	in := engine.Input{Sourced: true, Params: rules.MakeParams(map[string]string{"domain": "lab", "name": "ANN"})}
	derive, known := o.derive(&engine.Call{Door: "ratelimit", Rules: parse(""), Inputs: []engine.Input{in}}, 0)
	if derive == nil || !known {
		t.Fatalf("known is %t, and nothing derives the parameters", known)
	}
	var p rules.Params
	if err := derive(&p); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, one := range p.List() {
		got[one.Name] = one.Value
	}
	if diff := cmp.Diff(map[string]string{"door": "ratelimit", "domain": "lab", "name": "ANN", "user": "ann"}, got); diff != "" {
		t.Errorf("parameters (-want +got):\n%s", diff)
	}
}
