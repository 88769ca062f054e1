package admin_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/access"
	"github.com/koalagate/koalagate/internal/admin"
)

func TestModes(t *testing.T) {
	bearer := []string{"Authorization", "Bearer " + changeToken}
	for _, c := range []struct {
		name, body string
		headers    []string
		code       int
		koala, rls engine.Mode
	}{
		{"one door", `{"koala":"off"}`, nil, 200, "off", "enforce"},
		{"two doors", `{"koala":"observe","ratelimit":"off"}`, nil, 200, "observe", "off"},
		{"no door", `{}`, nil, 200, "enforce", "enforce"},
		{"an unknown door", `{"koala":"off","cola":"off"}`, nil, 400, "enforce", "enforce"},
		{"an unknown mode", `{"ratelimit":"off","koala":"OFF"}`, nil, 400, "enforce", "enforce"},
		{"no object", `koala=off`, nil, 400, "enforce", "enforce"},
		{"no body", ``, nil, 400, "enforce", "enforce"},
		{"null", `null`, nil, 400, "enforce", "enforce"},
		{"two objects", `{"koala":"off"}{"ratelimit":"off"}`, nil, 400, "enforce", "enforce"},
		{"a trailing blank line", "{\"koala\":\"off\"}\r\n\n", nil, 200, "off", "enforce"},
		{"trailing text", `{"koala":"off"} please`, nil, 400, "enforce", "enforce"},
		{"an endless body", `{"` + strings.Repeat("x", 10_000), nil, 400, "enforce", "enforce"},
		{"from another site's page", `{"koala":"off"}`, []string{"Origin", "https://evil.example"}, 403, "enforce", "enforce"},
		{"from a page of the same origin", `{"koala":"off"}`, []string{"Sec-Fetch-Site", "same-origin"}, 200, "off", "enforce"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := options()
			h := admin.New(o)
			r := httptest.NewRequest("POST", "/modes", strings.NewReader(c.body))
			r.Host = "localhost:9982"
			headers := append(c.headers, bearer...)
			for i := 0; i < len(headers); i += 2 {
				r.Header.Set(headers[i], headers[i+1])
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != c.code || o.Modes.Of("koala") != c.koala || o.Modes.Of("ratelimit") != c.rls {
				t.Errorf("%d %s, koala %s, ratelimit %s; want %d, %s, %s", w.Code, w.Body, o.Modes.Of("koala"), o.Modes.Of("ratelimit"), c.code, c.koala, c.rls)
			}
		})
	}
}

// A change of modes needs the token for changes at every address, also where reading needs
// none, as POST /api/v1/modes does.
func TestModesRequireTheToken(t *testing.T) {
	for _, c := range []struct {
		name      string
		tokens    *access.Tokens
		token     string
		get, post int
	}{
		{"the default on this machine", &access.Tokens{Change: changeToken, Made: true}, "", 200, 401},
		{"the default on this machine, with the token", &access.Tokens{Change: changeToken, Made: true}, changeToken, 200, 200},
		{"an instance without a token", new(access.Tokens), "", 200, 403},
		{"an instance without a token, with one", new(access.Tokens), changeToken, 200, 403},
		{"no tokens at all", nil, "", 200, 403},
		{"configured tokens", &access.Tokens{Change: changeToken, Read: "read-token"}, "", 401, 401},
		{"the token for reading", &access.Tokens{Change: changeToken, Read: "read-token"}, "read-token", 200, 401},
		{"the token for changes", &access.Tokens{Change: changeToken, Read: "read-token"}, changeToken, 200, 200},
		{"beyond this machine", &access.Tokens{Change: changeToken, Made: true, Exposed: true}, "", 403, 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := options()
			o.Tokens = c.tokens
			h := admin.New(o)
			if w := request(h, "GET", "/modes", "localhost:9982", "Authorization", "Bearer "+c.token); w.Code != c.get {
				t.Errorf("GET: %d; want %d", w.Code, c.get)
			}
			r := httptest.NewRequest("POST", "/modes", strings.NewReader(`{"koala":"off"}`))
			r.Host = "localhost:9982"
			r.Header.Set("Authorization", "Bearer "+c.token)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			mode := engine.Mode("enforce")
			if c.post == 200 {
				mode = "off"
			}
			if w.Code != c.post || o.Modes.Of("koala") != mode {
				t.Errorf("POST: %d %s, koala %s; want %d, %s", w.Code, w.Body, o.Modes.Of("koala"), c.post, mode)
			}
		})
	}
}
