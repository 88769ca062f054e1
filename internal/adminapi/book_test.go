package adminapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
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
		{"GET words", "", 200, []string{`"leak"`, `"word": "burst"`, `"E012"`}},
		{"POST check", changed, 200, []string{`"errors": 0`, `"count 2 → 20"`, `"size": `}},
		{"POST check", draft(t, "[rules]\nrule : [cuont] [] [] []\n"), 200, []string{`"code": "E012"`, `"suggestion": "count"`, `"line": 2`}},
		{"POST check", listed, 200, []string{"the rules in force do not have /etc/passwd"}},
		{"POST check", `{"files":[]}`, 400, []string{"0 files"}},
		{"POST check", `{"files":[{"name":"a","text":""},{"name":"a","text":""}]}`, 400, []string{"two files have the name"}},
		{"POST check", `{"files":[{"name":"","text":""}]}`, 400, []string{"no name"}},
		{"POST check", `{"files":[{"name":"a","text":"` + strings.Repeat("#", maxDraft) + `"}]}`, 413, []string{"longer than"}},
		{"POST format", `{"name":"a","text":"[ rules ]\nrule:[count] [uid=+] [time=60;count=2] [result=2;return=1]"}`, 200, []string{`"text": "[rules]\n`}},
		{"POST format", `{"name":"a","text":"[rulez]"}`, 200, []string{`"text": "[rulez]"`, `"code": "E`}},
		{"POST explain", `{"params":{"act":"post","uid":"ann"}}`, 200, []string{`"verdict": "allow"`, `"outcome": "passes"`}},
		{"POST explain", `{"request":{"target":"/x","peer":"192.0.2.1"}}`, 200, []string{`"from": `}},
		{"POST explain", `{"params":{"uid":"9"},` + draft(t, strings.Replace(ruleFile, "uid=666", "uid=9", 1))[1:], 200, []string{`"decider": 301`}},
		{"POST explain", `{"params":{"uid":"9"},` + draft(t, "[rules")[1:], 400, []string{"E0"}},
		{"POST explain", `{"request":{"door":"ratelimit","descriptor":[{"key":"k"},{"key":"k","value":"v"}]},"params":{"domain":"d"}}`, 200, []string{`"path": "d.k.k_v"`, `"outcome": "passes"`, `"verdict": "none"`}},
		{"POST explain", `{"request":{"door":"back"}}`, 400, []string{"unknown door"}},
		{"POST why", `{"request":{"door":"koala"},"params":{"uid":"ann","act":"post"}}`, 200, []string{`"status": 429`, `"name": "Retry-After"`}},
		{"GET modes", "", 200, []string{`"extauthz": "enforce"`}},
		{"POST modes", `{"extauthz":"observe"}`, 200, []string{`"extauthz": "observe"`}},
		{"POST modes", `{"back":"observe"}`, 400, []string{"unknown door"}},
		{"POST modes", `{"extauthz":"asleep"}`, 400, []string{"asleep"}},
		{"POST modes", `{}`, 400, []string{"want a door"}},
		{"GET audit", "", 200, []string{`"action": "mode"`, `"detail": "extauthz observe"`}},
	} {
		w := s.ask(c.line, c.body, "Authorization", "Bearer "+changeToken)
		method, path, _ := strings.Cut(c.line, " ")
		validate(t, doc, method, path, w.Code, w.Header().Get("Content-Type"), w.Body.Bytes())
		if w.Code != c.status {
			t.Errorf("%s %.200s: %d; want %d: %.500s", c.line, c.body, w.Code, c.status, w.Body)
		}
		for _, want := range c.want {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s %.200s: no %s in\n%s", c.line, c.body, want, w.Body)
			}
		}
		answered[c.line] = answered[c.line] || w.Code == http.StatusOK
	}
	for _, one := range texts {
		if !answered[one.method+" "+one.path] {
			t.Errorf("%s %s was not answered with 200", one.method, one.path)
		}
	}
}
