package adminapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/exceptions"
	"github.com/koalagate/koalagate/internal/operations"
	"github.com/koalagate/koalagate/rules"
)

// A caller whose clock is wrong by minutes states for how long an exception is in force.
func TestExceptionsForAWhile(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	s := newStage(t, func(o *Options) {
		set, _ := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(ruleFile)}}, rules.Options{})
		o.Exceptions = exceptions.New(exceptions.Options{Now: func() time.Time { return now }})
		o.Exceptions.Use(set)
	})
	for body, want := range map[string]string{
		`{"rule":201,"identity":{"uid":"ann"},"what":"deny"}],"for_ms":300000`:                                      `"until": "2030-01-02T03:09:05Z"`,
		`{"rule":201,"identity":{"uid":"bob"},"what":"deny","until":"2001-01-01T00:00:00Z"}],"for_ms":2678400000`:   `"until": "2030-02-02T03:04:05Z"`,
		`{"rule":201,"identity":{"uid":"eve"},"what":"deny"}],"for_ms":2678400001`:                                  "which is 31 days",
		`{"rule":201,"identity":{"uid":"eve"},"what":"deny"}],"for_ms":-1`:                                          "want 1",
		`{"rule":201,"identity":{"uid":"eve"},"what":"deny"}]`:                                                      "has passed",
		`{"id":"ABCDEFGHIJKL","rule":201,"identity":{"uid":"eve"},"what":"deny","signature":"AAAA"}],"for_ms":1000`: "whose signature covers its end",
	} {
		w := s.ask("POST exceptions", `{"exceptions":[`+body+`}`, "Authorization", "Bearer "+changeToken)
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %s; want %s", body, w.Body, want)
		}
	}
}

// A ban ends what rules with ban= have opened for identities of which it names a part, and neither
// its answer nor the audit trail shows the rest. What is opened for others goes on.
func TestBanEndsTheBansOfRules(t *testing.T) {
	s := newStage(t, nil)
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(strings.Replace(ruleFile, "[rules]", `[rules]
rule : [count] [act=login; ip=+; uid=+] [time=60; count=1; ban=600] [result=2; return=203; name=logins]`, 1))}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	s.engine.Swap(set)
	s.keeper.Use(set)
	logIn := func(ip, uid string) string { return s.take(1, "act", "login", "ip", ip, "uid", uid).Verdict.String() }
	for _, of := range [][2]string{{"203.0.113.7", "eve"}, {"203.0.113.8", "eve"}, {"203.0.113.7", "bob"}} {
		logIn(of[0], of[1])
		if got := logIn(of[0], of[1]); got != "deny" {
			t.Fatalf("%v: %s; want a ban by the rule", of, got)
		}
	}
	w := s.ask("POST exceptions", `{"exceptions":[{"what":"ban","identity":{"uid":" eve"}}],"for_ms":60000}`, "Authorization", "Bearer "+changeToken)
	var added []exceptions.Exception
	if err := json.Unmarshal(w.Body.Bytes(), &added); err != nil || len(added) != 1 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	var bans []operations.AutomaticBan
	if err := json.Unmarshal(s.ask("GET bans", "").Body.Bytes(), &bans); err != nil || len(bans) != 1 {
		t.Errorf("the bans of rules are %v, %v; want that of bob", bans, err)
	}
	trail := s.ask("GET audit", "").Body.String()
	if n := strings.Count(trail, "its ban is over with exception "+added[0].ID); n != 2 || strings.Contains(trail, "203.0.113") || !strings.Contains(trail, "uid=eve") {
		t.Errorf("%d bans are over in the audit trail, which is %s", n, trail)
	}
	if w := s.ask("DELETE exceptions/"+added[0].ID, "", "Authorization", "Bearer "+changeToken); w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	for of, want := range map[[2]string]string{{"203.0.113.7", "eve"}: "allow", {"203.0.113.8", "eve"}: "allow", {"203.0.113.7", "bob"}: "deny"} {
		if got := logIn(of[0], of[1]); got != want {
			t.Errorf("%v after the end: %s; want %s", of, got, want)
		}
	}
}

// The end of a ban ends what rules had opened before, and nothing that they have opened since.
func TestLiftSparesLaterBans(t *testing.T) {
	s := newStage(t, nil)
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(strings.Replace(ruleFile, "[rules]", `[rules]
rule : [count] [act=login; uid=+] [time=60; count=1; ban=600] [result=2; return=203; name=logins]`, 1))}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	s.engine.Swap(set)
	s.keeper.Use(set)
	for range 2 {
		s.take(1, "act", "login", "uid", "eve")
	}
	desk := s.server.Desk
	for _, c := range []struct {
		age  time.Duration
		want int
	}{{time.Hour, 0}, {time.Minute, 0}, {1, 1}, {1, 0}} {
		time.Sleep(2 * time.Millisecond) // the counters have a resolution of one
		if lifted, err := desk.Lift(t.Context(), operations.Identity{"uid": "eve"}, c.age); err != nil || len(lifted) != c.want {
			t.Errorf("of bans that are %s old: lifted %v, %v; want %d", c.age, lifted, err, c.want)
		}
	}
}

// Requests refer to rules by number or name.
func TestRulesByNameInRequests(t *testing.T) {
	s := newStage(t, nil)
	ask := func(line, rule, rest string) (int, string) {
		w := s.ask(line, strings.Replace(rest, "RULE", rule, 1), "Authorization", "Bearer "+changeToken)
		return w.Code, w.Body.String()
	}
	const ann = `"identity":{"uid":"ann"}`
	for line, rest := range map[string]string{
		"POST reset":              `{"rule":RULE,` + ann + `}`,
		"POST exceptions/prepare": `{"exceptions":[{"rule":RULE,` + ann + `,"what":"deny"}],"for_ms":60000}`,
	} {
		for rule, want := range map[string]string{`201`: `"rule": 201`, `"201"`: `"rule": 201`, `"posts"`: `"rule": 201`} {
			if status, body := ask(line, rule, rest); status != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%s of rule %s: %d %s; want %s", line, rule, status, body, want)
			}
		}
		for rule, want := range map[string]string{`999`: "there is no rule 999", `"psots"`: "did you mean posts?", `true`: "a rule is true; want its number or its name", `1.5`: "a rule is 1.5", `-1`: "no rule -1"} {
			if status, body := ask(line, rule, rest); status != http.StatusBadRequest || !strings.Contains(body, want) {
				t.Errorf("%s of rule %s: %d %s; want %s", line, rule, status, body, want)
			}
		}
	}
	status, body := ask("POST exceptions", `"psots"`, `{"exceptions":[{"rule":"posts",`+ann+`,"what":"deny"},{"rule":RULE,"identity":{"uid":"bob"},"what":"deny"}],"for_ms":60000}`)
	if status != http.StatusBadRequest || !strings.Contains(body, `"entry": 2`) || s.keeper.Counts()[exceptions.Deny] != 0 {
		t.Errorf("an unknown name in a list: %d %s; want the entry 2, and nothing added", status, body)
	}
	if status, body := ask("POST exceptions", `"posts"`, `{"exceptions":[{"rule":RULE,`+ann+`,"what":"deny"}],"for_ms":60000}`); status != http.StatusOK || s.take(1, "act", "post", "uid", "ann").Verdict.String() != "deny" {
		t.Errorf("%d %s; want an exception from rule 201", status, body)
	}
}
