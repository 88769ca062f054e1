package service

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/e2e/certs"
	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/heavy"
	"github.com/koalagate/koalagate/internal/metrics"
	"github.com/koalagate/koalagate/rules"
)

// metricsText returns what a service exports.
func metricsText(m *metrics.Metrics) string {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// counted returns the counts of a rule: matched, admitted, refused, near its limit, and
// refused if it were no shadow rule.
func counted(t *testing.T, text string, rule int) [5]string {
	t.Helper()
	var counts [5]string
	for i, name := range []string{"matched", "admitted", "refused", "near_limit", "shadow_refused"} {
		begin := fmt.Sprintf("koalagate_rule_%s_total{name=\"\",rule=\"%d\"} ", name, rule)
		if _, rest, found := strings.Cut(text, begin); found {
			counts[i], _, _ = strings.Cut(rest, "\n")
		}
	}
	return counts
}

func parseRules(t *testing.T, lines string) *rules.Set {
	t.Helper()
	text := "[rules]\n" + lines + "\n[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10}\n"
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{Timezone: "UTC"})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	return set
}

const (
	lineOfFive   = "rule : [count] [uid=+] [time=3600; count=5] [result=2; return=201]"
	lineOfSix    = "rule : [count] [uid=+] [time=3600; count=6] [result=2; return=202]"
	lineOfShadow = "rule : [count] [uid=+] [time=3600; count=2] [result=2; return=203; shadow=1]"
	lineOfOther  = "rule : [count] [org=+] [time=3600; count=2] [result=2; return=204]"
)

// Every rule is exported at 0 from the start. Seven calls: five are admitted, the fifth
// of them near the limit of rule 201, which refuses the rest.
func TestRulesAreCounted(t *testing.T) {
	set := parseRules(t, lineOfShadow+"\n"+lineOfFive+"\n"+lineOfSix+"\n"+lineOfOther)
	m := metrics.New(metrics.Build{})
	counts := newRuleCounts(m, heavy.New(heavy.Options{}), 0.8)
	counts.load(set)
	for number := 201; number <= 204; number++ {
		if got, want := counted(t, metricsText(m), number), [5]string{"0", "0", "0", "0", "0"}; got != want {
			t.Errorf("rule %d begins with %v", number, got)
		}
	}
	e := engine.New(set, engine.ObserveMatches(counts.observe))
	for range 7 {
		call := &engine.Call{Op: engine.Take, Inputs: []engine.Input{{Params: rules.MakeParams(map[string]string{"uid": "ann"})}}}
		if _, err := e.Decide(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	text := metricsText(m)
	for number, want := range map[int][5]string{
		201: {"7", "5", "2", "1", "0"},
		202: {"7", "5", "0", "0", "0"},
		203: {"7", "5", "0", "0", "5"},
		204: {"0", "0", "0", "0", "0"},
	} {
		if got := counted(t, text, number); got != want {
			t.Errorf("rule %d: %v; want %v", number, got, want)
		}
	}
}

// A refusal that a door only observes counts as refused.
func TestObservedRefusalsAreCountedByRule(t *testing.T) {
	set := parseRules(t, "rule : [count] [uid=+] [time=3600; count=1] [result=2; return=201]")
	m, modes := metrics.New(metrics.Build{}), new(engine.Modes)
	modes.Set(map[string]engine.Mode{"koala": engine.ModeObserve})
	counts := newRuleCounts(m, heavy.New(heavy.Options{}), 1)
	counts.load(set)
	e := engine.New(set, engine.WithModes(modes), engine.ObserveMatches(counts.observe))
	for _, op := range []engine.Op{engine.Take, engine.Take, engine.Complete, engine.Peek} {
		call := &engine.Call{Door: "koala", Op: op, Rule: 201, Inputs: []engine.Input{{Params: rules.MakeParams(map[string]string{"uid": "ann"})}}}
		if _, err := e.Decide(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := counted(t, metricsText(m), 201), [5]string{"3", "1", "2", "0", "0"}; got != want {
		t.Errorf("got %v; want %v", got, want)
	}
}

// After a reload, rules that stay keep their counts, new ones begin at 0, and the series
// of rules that are gone end. Calls that began before it still count.
func TestReloadKeepsTheCountsOfRules(t *testing.T) {
	before, after := parseRules(t, lineOfFive+"\n"+lineOfOther), parseRules(t, lineOfSix+"\n"+lineOfFive)
	m := metrics.New(metrics.Build{})
	counts := newRuleCounts(m, heavy.New(heavy.Options{}), 0.8)
	e := engine.New(before, engine.ObserveMatches(counts.observe))
	take := func(set *rules.Set) {
		call := &engine.Call{Rules: set, Op: engine.Take, Inputs: []engine.Input{{Params: rules.MakeParams(map[string]string{"uid": "ann"})}}}
		if _, err := e.Decide(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	counts.load(before)
	take(before)
	counts.load(after)
	take(before)
	take(after)
	text := metricsText(m)
	for number, want := range map[int][5]string{201: {"3", "3", "0", "0", "0"}, 202: {"1", "1", "0", "0", "0"}, 204: {}} {
		if got := counted(t, text, number); got != want {
			t.Errorf("rule %d: %v; want %v", number, got, want)
		}
	}
}

func TestRulesBeyondThousandShareASeries(t *testing.T) {
	var lines strings.Builder
	for n := range 1100 {
		fmt.Fprintf(&lines, "rule : [direct] [n=%d] [time=1; count=0;] [result=2; return=%d]\n", n, n+1)
	}
	m := metrics.New(metrics.Build{})
	counts := newRuleCounts(m, heavy.New(heavy.Options{}), 0.8)
	for range 2 { // a reload keeps the counts of other
		set := parseRules(t, lines.String())
		counts.load(set)
		e := engine.New(set, engine.ObserveMatches(counts.observe))
		for _, n := range []string{"0", "1050", "1060"} {
			call := &engine.Call{Op: engine.Take, Inputs: []engine.Input{{Params: rules.MakeParams(map[string]string{"n": n})}}}
			if _, err := e.Decide(t.Context(), call); err != nil {
				t.Fatal(err)
			}
		}
	}
	text := metricsText(m)
	if n := strings.Count(text, "koalagate_rule_refused_total{"); n != 1001 {
		t.Errorf("%d series; want 1001", n)
	}
	for _, want := range []string{`koalagate_rule_refused_total{name="",rule="1"} 2`, `koalagate_rule_refused_total{name="",rule="other"} 4`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
}

// Counting a decision by its rules allocates nothing.
func TestCountingRulesDoesNotAllocate(t *testing.T) {
	set := parseRules(t, lineOfFive+"\n"+lineOfSix)
	counts := newRuleCounts(metrics.New(metrics.Build{}), heavy.New(heavy.Options{}), 0.8)
	counts.load(set)
	var matches rules.Matches
	set.Match(rules.MakeParams(map[string]string{"uid": "ann"}), &matches)
	answer := &engine.Answer{Verdict: rules.Allow, Limited: true, Quota: engine.Quota{Rule: set.Rules[0], Limit: 5, Remaining: 1}}
	call := &engine.Call{Door: "koala"}
	for range 20_000 { // until the buffers for identities have their size
		counts.observe(call, set, matches.List, answer)
	}
	if n := testing.AllocsPerRun(100, func() { counts.observe(call, set, matches.List, answer) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Requests that an address refuses because of their peer are counted by reason, and
// all requests by their status.
func TestRefusedPeersAreCounted(t *testing.T) {
	s, _ := open(t, map[string]any{"koala_token": "12345678"})
	stranger := checkOf("ann")
	stranger.RemoteAddr = "192.0.2.1:1"
	for _, r := range []*http.Request{stranger, httptest.NewRequest(http.MethodGet, "/v1/nowhere", nil), httptest.NewRequest(http.MethodGet, "/rule/take", nil)} {
		if r != stranger {
			r.RemoteAddr = "127.0.0.1:1"
		}
		s.web.Handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	text := metricsText(s.metrics)
	for _, want := range []string{
		`koalagate_refused_peers_total{address="http",reason="untrusted"} 1`,
		`koalagate_refused_peers_total{address="http",reason="unknown_path"} 1`,
		`koalagate_refused_peers_total{address="http",reason="token"} 1`,
		`koalagate_refused_peers_total{address="admin",reason="host"} 0`,
		`koalagate_refused_peers_total{address="admin",reason="web_page"} 0`,
		`koalagate_http_requests_total{address="http",code="403"} 2`,
		`koalagate_http_requests_total{address="http",code="404"} 1`,
		`koalagate_calls_in_flight{address="http"} 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// The hash of the settings differs where settings differ, and does not depend on secrets.
func TestHashOfTheSettings(t *testing.T) {
	same, token, other := load(t, nil).Config, load(t, map[string]any{"koala_token": "12345678"}).Config, load(t, map[string]any{"headers": "none"}).Config
	same.Rules, token.Rules, other.Rules = nil, nil, nil
	if second := token; second.Hash() == other.Hash() || len(same.Hash()) != 16 {
		t.Errorf("%s, %s, %s", same.Hash(), token.Hash(), other.Hash())
	}
	changed := token
	changed.KoalaToken = "another-secret"
	if changed.Hash() != token.Hash() {
		t.Error("the hash depends on a secret")
	}
}

// certificateFlags returns settings with a certificate for the gRPC address.
func certificateFlags(t *testing.T) map[string]any {
	t.Helper()
	authority, err := certs.NewAuthority("koalagate")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	flags := map[string]any{"grpc_tls_cert": filepath.Join(dir, "cert.pem"), "grpc_tls_key": filepath.Join(dir, "key.pem")}
	pair, err := authority.Sign("koalagate.example")
	for key, text := range map[string][]byte{"grpc_tls_cert": pair.Cert, "grpc_tls_key": pair.Key} {
		err = errors.Join(err, os.WriteFile(flags[key].(string), text, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	return flags
}

// The identities that direct rules refuse are among the heaviest, those that they admit are not.
func TestRefusedByDirectRules(t *testing.T) {
	set := parseRules(t, "rule : [direct] [ip=192.0.2.0/24; act=login] [] [result=2; return=201]\n"+
		"rule : [direct] [act=ask] [] [result=1; return=202]\n"+
		"rule : [direct] [act=post] [] [result=2; return=203; shadow=1]")
	found := heavy.New(heavy.Options{Rule: set.Rule})
	counts := newRuleCounts(metrics.New(metrics.Build{}), found, 1)
	counts.load(set)
	e := engine.New(set, engine.ObserveMatches(counts.observe))
	decide := func(op engine.Op, params map[string]string) {
		t.Helper()
		call := &engine.Call{Op: op, Inputs: []engine.Input{{Params: rules.MakeParams(params)}}}
		if _, err := e.Decide(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	for _, op := range []engine.Op{engine.Take, engine.Browse, engine.Complete} {
		decide(op, map[string]string{"ip": "192.0.2.7", "act": "login", "uid": "ann"})
	}
	for _, act := range []string{"ask", "post"} {
		decide(engine.Take, map[string]string{"act": act})
	}
	rows, _ := found.Top(t.Context(), heavy.Question{By: heavy.Refused})
	want := []heavy.Row{{Rule: 201, Identity: map[string]string{"ip": "192.0.2.7", "act": "login"}, Refused: 3}}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Error(diff)
	}
	if rows, _ := found.Top(t.Context(), heavy.Question{By: heavy.Admitted}); len(rows) > 0 {
		t.Errorf("admitted: %+v", rows)
	}
}
