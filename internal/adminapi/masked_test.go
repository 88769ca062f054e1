package adminapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/exceptions"
	"github.com/koalagate/koalagate/rules"
)

// Every question that takes values refuses a mask, which is the value of nobody, wherever it is.
func TestMasksAreNoValues(t *testing.T) {
	s := newStage(t, nil)
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte("[params]\nuid : header X-User-Id else cookie user else query user\n[routes]\n* /users/{uid} : act=post\n" + ruleFile)}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	s.engine.Swap(set)
	const mask = "#0123456789abcdef"
	for _, c := range [][2]string{
		{"POST why", `{"params":{"uid":"` + mask + `"}}`},
		{"POST why", `{"params":{"uid":" ` + mask + ` "}}`},
		{"POST why", `{"request":{"target":"/","headers":{"X-User-Id":["` + mask + `"]}}}`},
		{"POST why", `{"request":{"target":"/","headers":{"Cookie":["a=b; user=` + mask + `"]}}}`},
		{"POST why", `{"request":{"target":"/?user=%230123456789abcdef"}}`},
		{"POST why", `{"request":{"target":"/users/%230123456789abcdef"}}`},
		{"POST explain", `{"params":{"uid":"` + mask + `"}}`},
		{"POST explain", `{"params":{"uid":" ` + mask + `\t"}}`},
		{"POST explain", `{"request":{"target":"/","headers":{"X-User-Id":["` + mask + `"]}}}`},
		{"POST explain", `{"request":{"target":"/","headers":{"Cookie":["user=` + mask + `"]}}}`},
		{"POST explain", `{"request":{"target":"/?user=%230123456789abcdef"}}`},
		{"POST reset", `{"rule":201,"identity":{"uid":"` + mask + `"}}`},
		{"POST reset", `{"rule":201,"identity":{"uid":"\t` + mask + `"}}`},
		{"POST exceptions", `{"exceptions":[{"rule":201,"identity":{"uid":"` + mask + `"},"what":"deny"}],"for_ms":1000}`},
		{"POST exceptions", `{"exceptions":[{"what":"ban","identity":{"uid":"` + mask + ` "}}],"for_ms":1000}`},
		{"POST exceptions/prepare", `{"exceptions":[{"what":"ban","identity":{"uid":"` + mask + `"}}],"for_ms":1000}`},
	} {
		w := s.ask(c[0], c[1], "Authorization", "Bearer "+changeToken)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "is a mask") {
			t.Errorf("%s %s: %d %s", c[0], c[1], w.Code, w.Body)
		}
	}
	if counts := s.keeper.Counts(); counts[exceptions.Deny] != 0 || counts[exceptions.Ban] != 0 {
		t.Error("an exception was added")
	}
}

// A handle names an identity in changes, of which nobody sees the value: neither in answers, nor
// in the list and its search, the audit trail and the log.
func TestChangesByHandle(t *testing.T) {
	s := newStage(t, nil)
	ann := map[string]string{"act": "post", "uid": "ann"}
	shown := s.memory.Hide(ann, []string{"uid"})
	handle := s.memory.Handle(ann, shown)
	for range 2 {
		s.take(1, "act", "post", "uid", "ann")
	}
	var all strings.Builder
	ask := func(line, body string, want int) string {
		t.Helper()
		w := s.ask(line, body, "Authorization", "Bearer "+changeToken)
		if w.Code != want {
			t.Errorf("%s: %d %s; want %d", line, w.Code, w.Body, want)
		}
		all.WriteString(w.Body.String())
		return w.Body.String()
	}
	ask("POST reset", `{"rule":201,"identity":{},"handle":"`+handle+`"}`, http.StatusOK)
	if d := s.take(2, "act", "post", "uid", "ann"); d.Verdict.String() != "allow" {
		t.Errorf("after the reset: %v", d.Verdict)
	}
	text := ask("POST exceptions", `{"exceptions":[{"rule":201,"identity":{},"what":"deny","handle":"`+handle+`"}],"for_ms":60000}`, http.StatusOK)
	var added []exceptions.Exception
	if err := json.Unmarshal([]byte(text), &added); err != nil || len(added) != 1 || added[0].Identity["uid"] != shown["uid"] {
		t.Fatalf("added %s, %v", text, err)
	}
	if d := s.take(1, "act", "post", "uid", "ann"); d.Verdict.String() != "deny" {
		t.Errorf("with the exception: %v", d.Verdict)
	}
	if text := ask("GET exceptions", "", http.StatusOK); !strings.Contains(text, shown["uid"]) || strings.Contains(text, "handle") {
		t.Errorf("the list is %s", text)
	}
	if text := ask("GET exceptions?search=uid=ann", "", http.StatusOK); strings.Contains(text, "rule") {
		t.Errorf("a search finds what is not shown: %s", text)
	}
	// What ended can be added again.
	gone := ask("DELETE exceptions/"+added[0].ID, "", http.StatusOK)
	ask("POST exceptions", `{"exceptions":[`+gone+`]}`, http.StatusOK)
	ask("POST exceptions", `{"exceptions":[{"what":"ban","identity":{"uid":"`+shown["uid"]+`"},"handle":"`+handle+`"}],"for_ms":60000}`, http.StatusOK)
	if d := s.take(1, "act", "other", "uid", "ann"); d.Verdict.String() != "deny" {
		t.Errorf("with the ban: %v", d.Verdict)
	}
	ask("GET audit", "", http.StatusOK)
	if text := all.String() + s.log.String(); strings.Contains(text, "ann\"") || strings.Contains(text, "uid=ann") {
		t.Errorf("the value is in %s", text)
	}
	// What a signature covers must be known to the signer, and prepare needs no token for changes.
	if text := ask("POST exceptions/prepare", `{"exceptions":[{"what":"ban","identity":{},"handle":"`+handle+`"}],"for_ms":1000}`, http.StatusBadRequest); !strings.Contains(text, "a signature covers the values") {
		t.Errorf("prepare: %s", text)
	}
	if text := ask("POST reset", `{"rule":201,"identity":{},"handle":"`+strings.Replace(handle, "edge", "core", 1)+`"}`, http.StatusBadRequest); !strings.Contains(text, "core:7") {
		t.Errorf("another instance: %s", text)
	}
}
