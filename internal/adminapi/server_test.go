package adminapi

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/access"
	"github.com/koalagate/koalagate/internal/audit"
	"github.com/koalagate/koalagate/internal/exceptions"
	"github.com/koalagate/koalagate/internal/heavy"
	"github.com/koalagate/koalagate/internal/identities"
	"github.com/koalagate/koalagate/internal/operations"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/internal/trace"
	"github.com/koalagate/koalagate/internal/traffic"
	"github.com/koalagate/koalagate/internal/trial"
	"github.com/koalagate/koalagate/internal/whatif"
	"github.com/koalagate/koalagate/rules"
)

const ruleFile = `[rules]
rule : [count] [act=post; uid=+] [time=3600; count=2] [result=2; return=201; name=posts]
rule : [leak] [act=post; ip=+; mobile=1{~}] [time=60; count=9; ban=300] [result=2; return=202]
rule : [direct] [uid=666] [] [result=2; return=301]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// stage is an API over an engine.
type stage struct {
	t       *testing.T
	engine  *engine.Engine
	server  *server
	handler http.Handler
	log     *bytes.Buffer
	keeper  *exceptions.Keeper
	memory  *identities.Memory
	totals  traffic.Totals
}

const changeToken = "token-for-changes"

// maxHeader is http_max_header of a stage.
const maxHeader = 64 << 10

func newStage(t *testing.T, change func(*Options)) *stage {
	t.Helper()
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(ruleFile)}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	s := &stage{t: t, log: new(bytes.Buffer)}
	mask := trace.NewMask([]string{trace.ShowNone, "act"})
	s.memory = identities.New(identities.Options{Mask: mask, Instance: "edge:7"})
	refusals := operations.NewRefusals()
	keeper := exceptions.New(exceptions.Options{Max: 2, Hide: s.memory.Hide})
	keeper.Use(set)
	modes, logger := new(engine.Modes), slog.New(slog.NewTextHandler(s.log, nil))
	s.engine = engine.New(set, engine.WithModes(modes), engine.ObserveMatches(func(c *engine.Call, _ *rules.Set, matches []rules.Match, a *engine.Answer) {
		refusals.Observe(c, matches, a)
	}), engine.WithExceptions(keeper.Engine()))
	s.keeper = keeper
	o := Options{
		Exceptions: keeper, Modes: modes, Trials: new(oneTrial), Traffic: traffic.New(traffic.Options{Totals: func() traffic.Totals { return s.totals }}),
		State: func() *State {
			return &State{Ready: true, Store: "memory", Release: &reload.Release{Version: 7, Author: "ann"}}
		},
		Heavy: heavy.New(heavy.Options{}),
		Desk: operations.New(operations.Options{
			Engine: s.engine, MaxHeader: maxHeader, Refusals: refusals, Mask: mask.InIdentity, Identities: s.memory, Imported: importedLimits(t), Log: operations.DecisionLog{Path: decisionLog(t), Every: 10},
		}),
		Tokens: &access.Tokens{Change: changeToken, Made: true, File: "/run/token"}, Logger: logger, Trail: audit.New(audit.Options{Host: "h1", Logger: logger}),
	}
	if change != nil {
		change(&o)
	}
	s.server, s.handler = newServer(o), New(o)
	return s
}

// decisionLog writes a decision log: one call of ann two hours ago, three in the last minute,
// and one whose parameters are masked.
func decisionLog(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	now := time.Now()
	for _, line := range []struct {
		ago time.Duration
		uid string
	}{{2 * time.Hour, "ann"}, {40 * time.Second, "ann"}, {30 * time.Second, "ann"}, {20 * time.Second, "ann"}, {10 * time.Second, "#0123456789abcdef"}} {
		fmt.Fprintf(&text, `{"t":%d,"door":"koala","params":{"act":"post","uid":%q}}`+"\n", now.Add(-line.ago).UnixMilli(), line.uid)
	}
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// oneTrial runs until it is stopped, and leaves no report.
type oneTrial struct{ stopped bool }

func (o *oneTrial) Report(context.Context) (*trial.Report, error) {
	if o.stopped {
		return nil, trial.ErrNone
	}
	until, d := time.Unix(1_800_000_000, 0).UTC(), whatif.Differences{NewlyRefused: 2}
	return &trial.Report{Version: 7, State: trial.Running, Until: &until, Then: "ask", AbortAbove: 0.5, Found: whatif.Found{
		Totals: whatif.Totals{Requests: 9, Differences: d},
		Rules:  []whatif.Rule{{Rule: 201, Name: "posts", Differences: d, Identities: []whatif.Identity{{Identity: "uid=ann", Differences: d}}}},
	}}, nil
}

func (o *oneTrial) Stop(ctx context.Context) (*trial.Report, error) {
	report, err := o.Report(ctx)
	if o.stopped = true; err == nil {
		report.State = trial.Ended
	}
	return report, err
}

// take takes hits of a request with these parameters.
func (s *stage) take(hits uint64, params ...string) *engine.Decision {
	s.t.Helper()
	p := new(rules.Params)
	for i := 0; i < len(params); i += 2 {
		p.Set(params[i], params[i+1])
	}
	d, err := s.engine.Decide(s.t.Context(), &engine.Call{Op: engine.Take, Door: "extauthz", Inputs: []engine.Input{{Params: p, Hits: hits}}})
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// ask sends `METHOD path` with a body and headers as alternating names and values.
func (s *stage) ask(line, body string, headers ...string) *httptest.ResponseRecorder {
	s.t.Helper()
	method, path, _ := strings.Cut(line, " ")
	r := httptest.NewRequestWithContext(s.t.Context(), method, Prefix+path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

// Every path answers as it is described, to valid and to invalid requests.
func TestAnswersAreDescribed(t *testing.T) {
	doc := loadDescription(t)
	s := newStage(t, nil)
	s.take(2, "act", "post", "uid", "ann")
	s.take(1, "act", "post", "uid", "ann") // refused
	answered := make(map[string]bool)
	kept, err := s.keeper.Add(t.Context(), []exceptions.Exception{{
		Rule: 202, Identity: map[string]string{"ip": "192.0.2.9"}, What: exceptions.Allow, Until: time.Now().Add(time.Hour),
	}})
	if err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	for _, c := range []struct {
		line, body string
		status     int
		want       []string // texts of the answer
	}{
		{"GET openapi.yaml", "", 200, []string{"openapi: 3"}},
		{"POST why", `{"params":{"uid":"ann"}}`, 200, []string{
			`"verdict": "deny"`, `"rule": 201`, `"name": "posts"`, `"act": "post"`, `"used": 2`, `"remaining": 0`, `"door": "extauthz"`,
		}},
		{"POST why", `{"params":{"uid":"ann","act":"post"}}`, 200, []string{`"verdict": "deny"`, `"decider": 201`, `missing parameters: ip`}},
		{"POST why", `{"params":{"uid":"bob","act":"post"}}`, 200, []string{`"verdict": "allow"`, `"used": 0`, `"refusals": []`}},
		{"POST why", `{"params":{"uid":"666"}}`, 200, []string{`"verdict": "deny"`, `"decider": 301`}},
		{"POST why", `{"params":{"ip":"192.0.2.1"}}`, 200, []string{`"verdict": "allow"`, `must also meet mobile=1`}},
		{"POST why", `{"request":{"door":"koala"},"params":{"uid":"ann","act":"post"}}`, 200, []string{`"verdict": "deny"`, `"decider": 201`, `"matched": true`}},
		{"POST why", `{"request":{"target":"/a%zz","method":"GET","peer":"192.0.2.1"}}`, 200, []string{`"refused": "`}},
		{"POST why", `{"request":{"door":"ratelimit","descriptor":[{"key":"k"},{"key":"k","value":"v"}]},"params":{"domain":"d"}}`, 200, []string{
			`"verdict": "deny"`, `"path": "d.k.k_v"`, `"outcome": "decides"`, `"used": 4`, `"reset_ms": 60000`, `"counted": true`, `"status": 429`,
		}},
		{"POST why", `{"request":{"door":"ratelimit"},"params":{"domain":"d","k":"v"}}`, 200, []string{`"verdict": "allow"`, `"outcome": "not met"`, `"reason": "\"d.k\" itself has no limit`}},
		{"POST why", `{"request":{"descriptor":[{"key":"k"}]}}`, 400, []string{"only the door ratelimit has a descriptor"}},
		{"POST why", `{"request":{"door":"ratelimit","descriptor":[{"key":"k"}]},"params":{"k":"v"}}`, 400, []string{"want domain alone"}},
		{"POST why", `{"request":{"door":"ratelimit","descriptor":[{"key":"domain"}]}}`, 400, []string{"want the domain in the parameters"}},
		{"POST why", `{"request":{"door":"back"}}`, 400, []string{`unknown door`}},
		{"POST why", `{}`, 400, []string{"no question"}},
		{"POST why", `{"parms":{}}`, 400, []string{"parms"}},
		{"POST why", `{"params":{"uid":"ann"}} more`, 400, []string{"unexpected text"}},
		{"POST why", `{"params":{"uid":"` + strings.Repeat("x", maxBody) + `"}}`, 413, []string{"longer than"}},
		{"POST reset", `{"rule":201,"identity":{"uid":"ann"},"note":"he asked"}`, 200, []string{`"act": "post"`, `"degraded": false`}},
		{"POST reset", `{"rule":201,"identity":{"act":"post"}}`, 400, []string{"missing parameters: uid"}},
		{"POST reset", `{"rule":201,"identity":{"uid":"ann","ip":"192.0.2.1"}}`, 400, []string{"does not count by: ip"}},
		{"POST reset", `{"rule":7,"identity":{}}`, 400, []string{"there is no rule 7"}},
		{"POST reset", `{"rule":301,"identity":{"uid":"666"}}`, 400, []string{"rule 301 has no counter"}},
		{"GET exceptions", "", 200, []string{`"what": "allow"`, `"192.0.2.9"`}},
		{"GET exceptions?rule=202&search=IP=192.0+allow&limit=1", "", 200, []string{`"192.0.2.9"`}},
		{"GET exceptions?rule=201", "", 200, []string{"[]"}},
		{"GET exceptions?rule=posts", "", 200, []string{"[]"}},
		{"GET exceptions?rule=999", "", 400, []string{"there is no rule 999"}},
		{"GET exceptions?search=nobody", "", 200, []string{"[]"}},
		{"GET exceptions?rule=0", "", 400, []string{"rule is", "want the number or the name of a rule"}},
		{"GET exceptions?search=1+2+3+4+5+6+7+8+9+10+11+12+13+14+15+16+17", "", 400, []string{"more than 16 different words"}},
		{"GET exceptions?limit=0", "", 400, []string{"want a number of exceptions"}},
		{"GET exceptions?find=x", "", 400, []string{"unknown parameter"}},
		{"POST exceptions", `{"exceptions":[{"rule":201,"identity":{"uid":"eve"},"what":"count","count":5,"until":"` + until + `"}]}`, 200, []string{`"count": 5`, `"author": "eve@desk"`}},
		{"POST exceptions", `{"exceptions":[{"rule":201,"identity":{"uid":"eve"},"what":"deny","until":"` + until + `"}]}`, 409, []string{"has exception"}},
		{"POST exceptions", `{"exceptions":[{"rule":201,"identity":{"uid":"ian"},"what":"deny","until":"` + until + `"}]}`, 507, []string{"max_exceptions"}},
		{"POST exceptions", `{"exceptions":[{"rule":301,"identity":{"uid":"666"},"what":"deny","until":"` + until + `"},{"rule":201,"identity":{},"what":"deny","until":"` + until + `"}]}`, 400, []string{"missing parameters: uid", `"entry": 2`}},
		{"POST exceptions", `{"exceptions":[{"rule":201,"identity":{},"what":"deny","until":"` + until + `"}]}`, 400, []string{"missing parameters: uid"}},
		{"POST exceptions/prepare", `{"exceptions":[{"rule":201,"identity":{"uid":"zoe"},"what":"deny","until":"` + until + `"}]}`, 200, []string{`"prefix": ""`, `"act": "post"`, `"author": "eve@desk"`}},
		{"POST exceptions/prepare", `{"exceptions":[{"rule":201,"identity":{"uid":"eve"},"what":"deny","until":"` + until + `"}]}`, 409, []string{"has exception"}},
		{"POST exceptions", `{"exceptions":[{"id":"x","signature":"y","rule":201,"identity":{"uid":"zoe"},"what":"deny","until":"` + until + `"}]}`, 400, []string{"signed exception"}},
		{"POST exceptions", `{"exceptions":{}}`, 400, []string{"JSON document"}},
		{"POST why", `{"params":{"uid":"eve"}}`, 200, []string{`"exception": "`, `"limit": 5`}},
		{"GET bans", "", 200, []string{"[]"}},
		{"DELETE exceptions/NONE", "", 404, []string{"no exception with this ID"}},
		{"DELETE exceptions/" + kept[0].ID, "", 200, []string{`"what": "allow"`}},
		{"GET trial", "", 200, []string{`"state": "running"`, `"newly_refused": 2`, `"identity": "uid=ann"`}},
		{"DELETE trial", "", 200, []string{`"state": "ended"`}},
		{"GET trial", "", 404, []string{"there is no trial: koalagate"}},
		{"DELETE trial", "", 404, []string{"there is no trial"}},
		{"GET audit", "", 200, []string{`"action": "trial stop"`, `"detail": "version 7`}},
		{"GET audit", "", 200, []string{`"action": "reset"`, `"author": "eve@desk"`, "rule 201, act=post uid=ann: he asked"}},
	} {
		w := s.ask(c.line, c.body, "Authorization", "Bearer "+changeToken, AuthorHeader, "eve@desk")
		c.line, _, _ = strings.Cut(c.line, "?")
		method, path, _ := strings.Cut(c.line, " ")
		validate(t, doc, method, path, w.Code, w.Header().Get("Content-Type"), w.Body.Bytes())
		if w.Code != c.status {
			t.Errorf("%s %.200s: %d; want %d: %s", c.line, c.body, w.Code, c.status, w.Body)
		}
		for _, want := range c.want {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s %.200s: no %s in\n%s", c.line, c.body, want, w.Body)
			}
		}
		if method == http.MethodDelete {
			c.line = "DELETE exceptions/{id}"
		}
		answered[c.line] = answered[c.line] || w.Code == http.StatusOK
	}
	for _, one := range questions {
		if !answered[one.method+" "+one.path] {
			t.Errorf("%s %s was not answered with 200", one.method, one.path)
		}
	}
	if d := s.take(1, "act", "post", "uid", "ann"); d.Verdict != rules.Allow {
		t.Error("the counter was not reset")
	}
	if log := s.log.String(); strings.Count(log, "\n") != 4 || !strings.Contains(log, "eve@desk") {
		t.Errorf("the log does not have four changes:\n%s", log)
	}
}

// Reading needs a token where one is configured or other machines can reach the address,
// and changes always need one.
func TestTokens(t *testing.T) {
	const readToken = "token-for-reading"
	for _, c := range []struct {
		name   string
		tokens *access.Tokens
		sent   string
		read   int
		change int
		detail string // of the refusal of the change
	}{
		{"made", &access.Tokens{Change: changeToken, Made: true, File: "/run/token"}, "", 200, 401, "/run/token"},
		{"made, sent", &access.Tokens{Change: changeToken, Made: true, File: "/run/token"}, changeToken, 200, 200, ""},
		{"made, wrong", &access.Tokens{Change: changeToken, Made: true, File: "/run/token"}, "wrong", 200, 401, "/run/token"},
		{"none could be made", &access.Tokens{}, "", 200, 403, "set admin_token_file"},
		{"none could be made, empty", &access.Tokens{}, " ", 200, 403, "set admin_token_file"},
		{"configured", &access.Tokens{Change: changeToken}, "", 401, 401, "admin_token"},
		{"configured, sent", &access.Tokens{Change: changeToken}, changeToken, 200, 200, ""},
		{"for reading", &access.Tokens{Change: changeToken, Read: readToken}, readToken, 200, 401, "admin_token"},
		{"for reading alone", &access.Tokens{Change: changeToken, Made: true, File: "/run/token", Read: readToken}, "", 401, 401, "/run/token"},
		{"exposed", &access.Tokens{Change: changeToken, Made: true, File: "/run/token", Exposed: true}, "", 403, 401, "admin_token"},
		{"exposed, for reading", &access.Tokens{Change: changeToken, Made: true, File: "/run/token", Exposed: true, Read: readToken}, readToken, 200, 401, "admin_token"},
	} {
		s := newStage(t, func(o *Options) { o.Tokens = c.tokens })
		var headers []string
		if c.sent != "" {
			headers = []string{"Authorization", "Bearer " + c.sent}
		}
		if w := s.ask("GET audit", "", headers...); w.Code != c.read {
			t.Errorf("%s: reading: %d; want %d: %s", c.name, w.Code, c.read, w.Body)
		}
		w := s.ask("POST reset", `{"rule":201,"identity":{"uid":"ann"}}`, headers...)
		if w.Code != c.change || !strings.Contains(w.Body.String(), c.detail) {
			t.Errorf("%s: changing: %d; want %d and %q: %s", c.name, w.Code, c.change, c.detail, w.Body)
		}
		if c.tokens.Exposed && strings.Contains(w.Body.String(), "/run/token") {
			t.Errorf("%s: an address that other machines can reach names a file: %s", c.name, w.Body)
		}
	}
}

// Other paths and methods get a problem document, too.
func TestUnknownPaths(t *testing.T) {
	s := newStage(t, nil)
	for _, line := range []string{"GET nothing", "GET why", "DELETE reset", "GET "} {
		if w := s.ask(line, ""); w.Code != http.StatusNotFound || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", line, w.Code, w.Body)
		}
	}
}
