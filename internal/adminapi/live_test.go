package adminapi

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/koalagate/koalagate/internal/heavy"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/internal/traffic"
	"github.com/koalagate/koalagate/rules"
)

// stream is a stream of events.
type stream struct {
	t     *testing.T
	lines *bufio.Scanner
}

// next returns the next event.
func (s *stream) next() (name, data string) {
	s.t.Helper()
	for s.lines.Scan() {
		line := s.lines.Text()
		if value, is := strings.CutPrefix(line, "event: "); is {
			name = value
		}
		if value, is := strings.CutPrefix(line, "data: "); is {
			return name, value
		}
	}
	s.t.Fatalf("the stream ended: %v", s.lines.Err())
	return "", ""
}

// follow opens a stream of events.
func follow(t *testing.T, s *stage) *stream {
	t.Helper()
	web := httptest.NewServer(s.handler)
	t.Cleanup(web.Close)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+Prefix+"events", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := web.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d %s", resp.StatusCode, resp.Header)
	}
	return &stream{t, bufio.NewScanner(resp.Body)}
}

// Events have the documents that the description names for them, and end with the hub.
func TestEvents(t *testing.T) {
	var recorder *traffic.Recorder
	s := newStage(t, func(o *Options) { recorder = o.Traffic })
	doc := loadDescription(t)
	recorder.SendState(traffic.EventRules, RulesEventOf(&reload.State{
		Generation: 2, Hash: "abc", Rules: 3, LastError: "rules.conf:1:1", Changes: &reload.Changes{Added: 1},
		Release: &reload.Release{Version: 7, Author: "ann", Note: "more", At: time.Now()},
	}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); recorder.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	events := follow(t, s)
	s.ask("POST reset", `{"rule":201,"identity":{"uid":"ann"}}`, "Authorization", "Bearer "+changeToken)
	schemas := map[string]string{traffic.EventDecisions: "Second", traffic.EventRules: "RulesEvent", traffic.EventChange: "Change"}
	for seen := make(map[string]bool); len(seen) < len(schemas); {
		name, data := events.next()
		if len(seen) == 0 && name != traffic.EventRules {
			t.Errorf("%s came before the state of the rules", name)
		}
		seen[name] = true
		var value any
		if err := json.Unmarshal([]byte(data), &value); err != nil {
			t.Fatal(err)
		}
		if err := doc.Components.Schemas[schemas[name]].Value.VisitJSON(value, openapi3.EnableFormatValidation()); err != nil {
			t.Errorf("%s: %v: %s", name, err, data)
		}
	}
	recorder.Close()
	for events.lines.Scan() {
	}
	if err := events.lines.Err(); err != nil {
		t.Errorf("the stream did not end well: %v", err)
	}
	w := s.ask("GET events", "")
	validate(t, doc, http.MethodGet, "events", w.Code, w.Header().Get("Content-Type"), w.Body.Bytes())
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("after the end: %d %s", w.Code, w.Body)
	}
}

// The hour of traffic is answered as it is described.
func TestTraffic(t *testing.T) {
	s := newStage(t, nil)
	doc := loadDescription(t)
	for line, status := range map[string]int{"GET traffic": 200, "GET traffic?scope=instance": 200, "GET traffic?scope=world": 400} {
		w := s.ask(line, "")
		validate(t, doc, http.MethodGet, "traffic", w.Code, w.Header().Get("Content-Type"), w.Body.Bytes())
		if w.Code != status {
			t.Errorf("%s: %d %s", line, w.Code, w.Body)
		}
	}
}

// The heaviest identities are answered as they are described, and questions that are none
// are refused.
func TestTop(t *testing.T) {
	var recorder *heavy.Recorder
	s := newStage(t, func(o *Options) { recorder = o.Heavy })
	match, err := s.engine.Rules().Rule(201).Identify(rules.MakeParams(map[string]string{"uid": "ann"}))
	if err != nil {
		t.Fatal(err)
	}
	recorder.Add(heavy.Refused, "extauthz", []rules.Match{match})
	doc := loadDescription(t)
	for _, c := range []struct {
		query  string
		status int
		want   string
	}{
		{"", 200, `"uid": "ann"`},
		{"?rule=201&by=refused&since=1h&limit=1000", 200, `"refused": 1`},
		{"?rule=202", 200, "[]"},
		{"?by=admitted", 200, "[]"},
		{"?rule=posts", 200, `"uid": "ann"`},
		{"?rule=999", 400, "there is no rule 999"},
		{"?rule=-1", 400, "want the number or the name"},
		{"?rule=x", 400, "there is no rule with the name"},
		{"?by=all", 400, "refused, admitted or near"},
		{"?since=1s", 400, "1m … 1h"},
		{"?since=ten", 400, "1m … 1h"},
		{"?limit=1001", 400, "1 … 1000"},
		{"?top=1", 400, "unknown parameter"},
	} {
		w := s.ask("GET top"+c.query, "")
		validate(t, doc, http.MethodGet, "top", w.Code, w.Header().Get("Content-Type"), w.Body.Bytes())
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %s; want %d and %s", c.query, w.Code, w.Body, c.status, c.want)
		}
		if c.status == http.StatusOK && w.Header().Get(ScopeHeader) != traffic.ScopeInstance {
			t.Errorf("%s: the scope is %q", c.query, w.Header().Get(ScopeHeader))
		}
	}
}

// All need the token for reading.
func TestLiveNeedsAToken(t *testing.T) {
	s := newStage(t, func(o *Options) { o.Tokens.Made = false })
	for _, one := range live {
		if w := s.ask(one.method+" "+one.path, ""); w.Code != http.StatusUnauthorized {
			t.Errorf("%s: %d", one.path, w.Code)
		}
	}
}
