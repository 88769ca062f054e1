package adminapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/access"
)

// A token becomes a session, and wrong tokens are counted.
func TestSession(t *testing.T) {
	doc := loadDescription(t)
	const readToken = "token-for-reading"
	s := newStage(t, func(o *Options) { o.Tokens = &access.Tokens{Change: changeToken, Read: readToken} })
	ask := func(line, body string, status int, want string, headers ...string) *http.Response {
		t.Helper()
		w := s.ask(line, body, headers...)
		method, path, _ := strings.Cut(line, " ")
		validate(t, doc, method, path, w.Code, w.Header().Get("Content-Type"), w.Body.Bytes())
		if w.Code != status || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s %s: %d %s; want %d and %q", line, body, w.Code, w.Body, status, want)
		}
		return w.Result()
	}
	const reset = `{"rule":201,"identity":{"uid":"ann"}}`
	ask("GET session", "", 200, `"level": "none"`)
	ask("GET session", "", 200, `"level": "change"`, "Authorization", "Bearer "+changeToken)
	ask("POST session", `{"token":""}`, 401, "neither")
	ask("POST session", `{"tok":""}`, 400, "tok")
	cookie := ask("POST session", `{"token":"`+readToken+`"}`, 200, `"level": "read"`).Header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=" + Prefix} {
		if !strings.Contains(cookie, want) {
			t.Errorf("the cookie %q has no %s", cookie, want)
		}
	}
	cookie, _, _ = strings.Cut(cookie, ";")
	ask("GET audit", "", 200, "[]", "Cookie", cookie)
	ask("POST reset", reset, 401, "changes need", "Cookie", cookie)
	cookie, _, _ = strings.Cut(ask("POST session", `{"token":"`+changeToken+`"}`, 200, `"level": "change"`).Header.Get("Set-Cookie"), ";")
	ask("POST reset", reset, 200, `"rule": 201`, "Cookie", cookie)
	ask("POST reset", reset, 401, "changes need", "Cookie", cookie, "Sec-Fetch-Site", "same-site")
	ask("GET session", "", 200, `"cookie": true`, "Cookie", cookie)
	ask("DELETE session", "", 200, `"level": "none"`, "Cookie", cookie)
	ask("POST reset", reset, 401, "changes need", "Cookie", cookie)
	for _, digit := range "12345" {
		ask("POST session", `{"token":"wrong`+string(digit)+`"}`, 401, "neither")
	}
	if r := ask("POST session", `{"token":"`+changeToken+`"}`, 429, "try again in"); r.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	if log := s.log.String(); strings.Contains(log, changeToken) || !strings.Contains(log, "wrong token") {
		t.Errorf("the log: %s", log)
	}
}

// Wrong bearer tokens are slowed as those of log-ins are, and together with them. The right
// token of another address, and requests without a token, go on.
func TestWrongTokensAreSlowed(t *testing.T) {
	s := newStage(t, nil) // reading is open
	const reset = `{"rule":201,"identity":{"uid":"ann"}}`
	for i, digit := range "123" {
		if w := s.ask("POST reset", reset, "Authorization", "Bearer wrong"+string(digit)); w.Code != http.StatusUnauthorized {
			t.Fatalf("wrong token %d: %d %s; want 401", i, w.Code, w.Body)
		}
	}
	for _, digit := range "45" {
		if w := s.ask("POST session", `{"token":"wrong`+string(digit)+`"}`); w.Code != http.StatusUnauthorized {
			t.Fatalf("wrong log-in %c: %d %s; want 401", digit, w.Code, w.Body)
		}
	}
	for line, body := range map[string]string{"POST reset": reset, "GET session": "", "POST session": `{"token":"` + changeToken + `"}`} {
		w := s.ask(line, body, "Authorization", "Bearer "+changeToken)
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s after five wrong tokens: %d %s; want 429", line, w.Code, w.Body)
		}
	}
	if w := s.ask("GET audit", "", "Authorization", "Bearer "+changeToken); w.Code != http.StatusOK {
		t.Errorf("reading, which is open: %d %s", w.Code, w.Body)
	}
	r := httptest.NewRequest(http.MethodPost, Prefix+"reset", strings.NewReader(reset))
	r.RemoteAddr = "198.51.100.7:1"
	r.Header.Set("Authorization", "Bearer "+changeToken)
	w := httptest.NewRecorder()
	if s.handler.ServeHTTP(w, r); w.Code != http.StatusOK {
		t.Errorf("the right token of another address: %d %s", w.Code, w.Body)
	}
	if log := s.log.String(); !strings.Contains(log, "must wait") {
		t.Errorf("the log: %s", log)
	}
}

// An instance that made its token names the file, unless other machines can ask.
func TestSessionNamesTheTokenFile(t *testing.T) {
	if w := newStage(t, nil).ask("GET session", ""); !strings.Contains(w.Body.String(), `"token_file": "/run/token"`) || !strings.Contains(w.Body.String(), `"level": "read"`) {
		t.Error(w.Body)
	}
	s := newStage(t, func(o *Options) { o.Tokens.Exposed = true })
	if w := s.ask("GET session", ""); strings.Contains(w.Body.String(), "/run/token") {
		t.Error(w.Body)
	}
}
