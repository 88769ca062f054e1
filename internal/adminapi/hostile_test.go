package adminapi

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// Whatever texts are in a question, its answer, an error about it, and what the audit trail and
// the list of exceptions keep of it are JSON that a terminal and a web page show, and programs read
// the texts as they are.
func TestHostileTextsOfAnswers(t *testing.T) {
	for name, text := range map[string]string{
		"sequences of terminals": "\x1b[2J\x1b]0;t\x07\u009b2J\x7f",
		"further lines":          "a\r\nforged: 1\n\t\v",
		"NUL":                    "a\x00b",
		"another direction":      "a\u202eb\u2066\u200f\u061c",
		"HTML":                   "</script><img src=x onerror=alert(1)>&",
		"a formula":              "=cmd|' /C calc'!A0",
		"no UTF-8":               "a\xff\xc0\xaf",
		"a long text":            strings.Repeat("\x1b[2J", 25_000),
	} {
		s := newStage(t, nil)
		document := func(v any) string {
			body, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			return string(body)
		}
		exception := map[string]any{"rule": 201, "identity": map[string]string{"act": "post", "uid": text[:min(len(text), 40)]}, "what": "allow", "note": text[:min(len(text), 100)]}
		lines := [][2]string{
			{"POST why", document(map[string]any{"params": map[string]string{"uid": text, "act": "post"}})},
			{"POST why", document(map[string]any{"params": map[string]string{text: "x"}})},
			{"POST why", document(map[string]any{text: "x"})},
			{"POST why", document(map[string]any{"request": map[string]any{"target": "/" + text, "method": text, "headers": map[string][]string{"X-User-Id": {text}}}})},
			{"POST explain", document(map[string]any{"params": map[string]string{"uid": text, text: text}})},
			{"POST check", draft(t, "[rules]\n"+text+" : [count]\n[params]\n"+text+" : "+text)},
			{"POST format", document(map[string]string{"name": text, "text": text})},
			{"POST reset", document(map[string]any{"rule": 201, "identity": map[string]string{"uid": text, "act": "post"}, "note": text})},
			{"POST exceptions", document(map[string]any{"for_ms": 60_000, "exceptions": []any{exception}})},
			{"GET exceptions", ""},
			{"GET exceptions?search=" + url.QueryEscape(text), ""},
			{"GET rules/" + url.PathEscape(text), ""},
			{"GET " + url.PathEscape(text), ""},
			{"GET audit", ""},
			{"DELETE exceptions/" + url.PathEscape(text), ""},
			{"POST modes?scope=" + url.QueryEscape(text), `{"koala":"observe"}`},
			{"POST modes", document(map[string]string{text: text})},
		}
		for _, line := range lines {
			w := s.ask(line[0], line[1], "Authorization", "Bearer "+changeToken, AuthorHeader, text)
			body := w.Body.String()
			what := name + ", " + line[0][:min(len(line[0]), 30)]
			if i := strings.IndexFunc(body, func(r rune) bool {
				return r == '<' || r == '>' || r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
			}); i >= 0 || !utf8.ValidString(body) {
				t.Errorf("%s: %d %q", what, w.Code, body[max(i, 0):min(len(body), max(i, 0)+40)])
			}
			if !json.Valid(w.Body.Bytes()) || w.Code >= http.StatusInternalServerError || w.Header().Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: %d %v %.300s", what, w.Code, w.Header(), body)
			}
		}
		if log := s.log.String(); strings.ContainsFunc(log, func(r rune) bool { return r != '\n' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }) {
			t.Errorf("%s: the log has %.300q", name, log)
		}
		var list []struct{ Identity map[string]string }
		if err := json.Unmarshal(s.ask("GET exceptions", "").Body.Bytes(), &list); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, one := range list {
			if want := string([]rune(strings.TrimSpace(text[:min(len(text), 40)]))); one.Identity["uid"] != want && !strings.HasPrefix(one.Identity["uid"], "#") {
				t.Errorf("%s: the exception is of %q; want %q", name, one.Identity["uid"], want)
			}
		}
	}
}
