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
			for i := 0; i < len(c.headers); i += 2 {
				r.Header.Set(c.headers[i], c.headers[i+1])
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != c.code || o.Modes.Of("koala") != c.koala || o.Modes.Of("ratelimit") != c.rls {
				t.Errorf("%d %s, koala %s, ratelimit %s; want %d, %s, %s", w.Code, w.Body, o.Modes.Of("koala"), o.Modes.Of("ratelimit"), c.code, c.koala, c.rls)
			}
		})
	}
}

func TestModesRequireTheToken(t *testing.T) {
	o := options()
	o.Tokens = &access.Tokens{Change: "s3cret-token", Read: "read-token"}
	h := admin.New(o)
	for _, method := range []string{"GET", "POST"} {
		if w := request(h, method, "/modes", "localhost:9982"); w.Code != 401 {
			t.Errorf("%s: %d; want 401", method, w.Code)
		}
	}
	for method, want := range map[string]int{"GET": 200, "POST": 401} {
		if w := request(h, method, "/modes", "localhost:9982", "Authorization", "Bearer read-token"); w.Code != want {
			t.Errorf("%s with the token for reading: %d; want %d", method, w.Code, want)
		}
	}
}
