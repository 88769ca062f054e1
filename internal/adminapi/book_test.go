package adminapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/operations"
)

// draft returns a request with one rule file.
func draft(t *testing.T, text string) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"files": []map[string]string{{"name": "rules.conf", "text": text}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// All paths about texts answer as they are described, to valid and to invalid requests.
func TestTextsAreDescribed(t *testing.T) {
	doc := loadDescription(t)
	s := newStage(t, nil)
	s.take(2, "act", "post", "uid", "ann")
	answered := make(map[string]bool)
	changed := draft(t, strings.Replace(ruleFile, "count=2", "count=20", 1))
	listed := draft(t, "[dicts]\nx : /etc/passwd\n"+strings.Replace(ruleFile, "uid=666", "uid @ x", 1))
	for _, c := range []struct {
		line, body string
		status     int
		want       []string // texts of the answer
	}{
		{"GET state", "", 200, []string{`"ready": true`, `"version": 7`}},
		{"GET rules", "", 200, []string{`"name": "rules.conf"`, `"rule": 202`, `"at most 2 in 3600 s"`, `"counts_by": [`, `"verdict": "deny"`, `"line": 3`, `"path": "d.k.k_v"`, `"limit": "at most 3 per minute"`}},
		{"GET words", "", 200, []string{`"leak"`, `"word": "burst"`, `"E012"`, `"door": "auth-request"`, `"text": "Go programs"`}},
		{"POST check", changed, 200, []string{`"errors": 0`, `"count 2 → 20"`, `"size": `}},
		{"POST check", draft(t, "[rules]\nrule : [cuont] [] [] []\n"), 200, []string{`"code": "E012"`, `"suggestion": "count"`, `"line": 2`}},
		{"POST check", listed, 200, []string{"the rules in force do not have /etc/passwd"}},
		{"POST check", `{"files":[]}`, 400, []string{"0 files"}},
		{"POST check", `{"files":[{"name":"a","text":""},{"name":"a","text":""}]}`, 400, []string{"two files have the name"}},
		{"POST check", `{"files":[{"name":"","text":""}]}`, 400, []string{"no name"}},
		{"POST check", `{"files":[{"name":"a","text":"` + strings.Repeat("#", maxLongBody) + `"}]}`, 413, []string{"longer than"}},
		{"POST format", `{"name":"a","text":"[ rules ]\nrule:[count] [uid=+] [time=60;count=2] [result=2;return=1]"}`, 200, []string{`"text": "[rules]\n`}},
		{"POST format", `{"name":"a","text":"[rulez]"}`, 200, []string{`"text": "[rulez]"`, `"code": "E`}},
		{"POST explain", `{"params":{"act":"post","uid":"ann"}}`, 200, []string{`"verdict": "allow"`, `"outcome": "passes"`}},
		{"POST explain", `{"request":{"target":"/x","peer":"192.0.2.1"}}`, 200, []string{`"from": `}},
		{"POST explain", `{"params":{"uid":"9"},` + draft(t, strings.Replace(ruleFile, "uid=666", "uid=9", 1))[1:], 200, []string{`"decider": 301`}},
		{"POST explain", `{"params":{"uid":"9"},` + draft(t, "[rules")[1:], 400, []string{"E0"}},
		{"POST explain", `{"request":{"door":"ratelimit","descriptor":[{"key":"k"},{"key":"k","value":"v"}]},"params":{"domain":"d"}}`, 200, []string{`"path": "d.k.k_v"`, `"outcome": "passes"`, `"verdict": "none"`}},
		{"POST explain", `{"request":{"door":"back"}}`, 400, []string{"unknown door"}},
		{"POST why", `{"request":{"door":"koala"},"params":{"uid":"ann","act":"post"}}`, 200, []string{`"status": 429`, `"name": "Retry-After"`}},
		{"POST replay", `{"since_ms":600000,` + changed[1:], 200, []string{
			`"calls": 4`, `"whole": true`, `"every": 10`, `"newly_allowed": 1`, `"newly_refused": 0`, `"rule": 201`, `"identity": "act=post uid=ann"`, `"uid"`,
		}},
		{"POST replay", `{"since_ms":1000,` + changed[1:], 200, []string{`"calls": 0`, `"masked": []`, `"rules": []`}},
		{"POST replay", `{"since_ms":0,` + changed[1:], 400, []string{"since_ms is 0"}},
		{"POST replay", `{"since_ms":9223372036854775807,` + changed[1:], 400, []string{"3600000"}},
		{"POST replay", `{"since_ms":1000,` + draft(t, "[rules")[1:], 400, []string{"E0"}},
		{"POST replay", `{"since_ms":1000,"files":[]}`, 400, []string{"0 files"}},
		{"GET rules/posts", "", 200, []string{`"rule": 201`, `"method": "count"`}},
		{"GET rules/202", "", 200, []string{`"rule": 202`}},
		{"GET rules/999", "", 400, []string{"there is no rule 999"}},
		{"GET rules/psots", "", 400, []string{"there is no rule with the name", "did you mean posts?"}},
		{"GET rules/" + strings.Repeat("a", 101), "", 400, []string{"has 101 bytes"}},
		{"GET modes", "", 200, []string{`"extauthz": "enforce"`}},
		{"POST modes", `{"extauthz":"observe"}`, 200, []string{`"extauthz": "observe"`}},
		{"POST modes", `{"back":"observe"}`, 400, []string{"unknown door"}},
		{"POST modes", `{"extauthz":"asleep"}`, 400, []string{"asleep"}},
		{"POST modes", `{}`, 400, []string{"want a door"}},
		{"POST modes?scope=instance", `{"koala":"off"}`, 200, []string{`"koala": "off"`}},
		{"POST modes?scope=all", `{"koala":"off"}`, 400, []string{"want fleet or instance"}},
		{"POST modes?scope=fleet", `{"koala":"off"}`, 404, []string{"needs follow_modes", "at its admin address with its token"}},
		{"GET audit", "", 200, []string{`"action": "mode"`, `"detail": "extauthz observe"`}},
	} {
		w := s.ask(c.line, c.body, "Authorization", "Bearer "+changeToken)
		method, path, _ := strings.Cut(c.line, " ")
		path, _, _ = strings.Cut(path, "?")
		if strings.HasPrefix(path, "rules/") {
			path = "rules/{rule}"
		}
		validate(t, doc, method, path, w.Code, w.Header().Get("Content-Type"), w.Body.Bytes())
		if w.Code != c.status {
			t.Errorf("%s %.200s: %d; want %d: %.500s", c.line, c.body, w.Code, c.status, w.Body)
		}
		for _, want := range c.want {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s %.200s: no %s in\n%s", c.line, c.body, want, w.Body)
			}
		}
		answered[method+" "+path] = answered[method+" "+path] || w.Code == http.StatusOK
	}
	for _, one := range texts {
		if !answered[one.method+" "+one.path] {
			t.Errorf("%s %s was not answered with 200", one.method, one.path)
		}
	}
}

// An instance without a decision log, or with one that is no file, replays nothing.
func TestReplayWithoutALog(t *testing.T) {
	body := `{"since_ms":1000,` + draft(t, ruleFile)[1:]
	for _, path := range []string{"", "/dev/null", "/nowhere/decisions.jsonl"} {
		s := newStage(t, nil)
		desk := operations.New(operations.Options{Engine: s.engine, Log: operations.DecisionLog{Path: path}})
		w := newStage(t, func(o *Options) { o.Desk = desk }).ask("POST replay", body, "Authorization", "Bearer "+changeToken)
		if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "set decision_log to a file") {
			t.Errorf("%q: %d %s", path, w.Code, w.Body)
		}
	}
}

// everywhere are modes that were set at all instances.
type everywhere struct {
	modes map[string]string
	fault error
}

func (e *everywhere) Set(_ context.Context, modes map[string]string) error {
	e.modes = modes
	return e.fault
}

// Modes of all instances are set in Redis, and at this instance if that succeeded.
func TestFleetModes(t *testing.T) {
	all := new(everywhere)
	s := newStage(t, func(o *Options) { o.FleetModes = all })
	set := func(mode string) *httptest.ResponseRecorder {
		return s.ask("POST modes?scope=fleet", `{"koala":"`+mode+`"}`, "Authorization", "Bearer "+changeToken)
	}
	if w := set("off"); w.Code != http.StatusOK || all.modes["koala"] != "off" || !strings.Contains(w.Body.String(), `"koala": "off"`) {
		t.Errorf("%d %s; %v", w.Code, w.Body, all.modes)
	}
	all.fault = errors.New("no connection")
	if w := set("observe"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "no connection") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := s.ask("GET modes", ""); !strings.Contains(w.Body.String(), `"koala": "off"`) {
		t.Errorf("after a failure: %s", w.Body)
	}
	if log := s.log.String(); strings.Count(log, "koala off, at all instances") != 1 || strings.Contains(log, "observe") {
		t.Errorf("the log: %s", log)
	}
}
