package nginx_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"

	"github.com/koalagate/koalagate/nginx"
)

// FuzzCheck sends arbitrary targets and headers to all doors. Every answer must have a
// status that gateways know and valid, short headers, and no check may be allowed
// without the headers that its door requires.
func FuzzCheck(f *testing.F) {
	for _, headers := range [][]string{viaNginx("GET", "/comments?a=%zz"), viaCaddy("POST", "//a/../b%2Fc"), {"X-Koala-Accel", "@x"}} {
		var lines strings.Builder
		for i := 0; i < len(headers); i += 2 {
			lines.WriteString(headers[i] + ":" + headers[i+1] + "\n")
		}
		for _, target := range []string{"/v1/auth-request?act=once&_deny=native", "/v1/forward-auth?&&=&%", "/v1/ext-authz/a/../%2f?x", "/v1/accel", "/v1/"} {
			f.Add("GET", target, lines.String())
		}
	}
	h := nginx.New(options(f))
	required := map[string][]string{
		"/v1/auth-request": {"X-Original-Method", "X-Real-Ip"},
		"/v1/accel":        {"X-Original-Method", "X-Real-Ip"},
		"/v1/forward-auth": {"X-Forwarded-Method", "X-Forwarded-Uri", "X-Forwarded-For"},
		"/v1/ext-authz":    {"X-Forwarded-For"},
	}
	known := []int{200, 400, 401, 403, 404, 418, 429}
	f.Fuzz(func(t *testing.T, method, target, lines string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || method == "" {
			return // net/http answers these itself
		}
		r := &http.Request{Method: method, URL: u, RequestURI: target, Header: headersOf(lines), Host: "koala", ProtoMajor: 1, RemoteAddr: "127.0.0.1:1", Body: http.NoBody}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if !slices.Contains(known, w.Code) {
			t.Errorf("status %d", w.Code)
		}
		size := 0
		for name, values := range w.Header() {
			for _, v := range values {
				size += len(name) + len(v) + len(": \r\n")
				if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(v) {
					t.Errorf("header %q: %q", name, v)
				}
			}
		}
		if size > 1900 {
			t.Errorf("%d bytes of headers", size)
		}
		for door, names := range required {
			for _, name := range names {
				if strings.HasPrefix(target, door) && w.Code == http.StatusOK && strings.TrimSpace(strings.Join(r.Header[name], "")) == "" {
					t.Errorf("a check without %s passed", name)
				}
			}
		}
	})
}

// headersOf returns the headers that net/http would accept of these lines.
func headersOf(lines string) http.Header {
	h := http.Header{}
	for line := range strings.Lines(lines) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		if httpguts.ValidHeaderFieldName(name) && httpguts.ValidHeaderFieldValue(value) {
			h.Add(name, strings.TrimSpace(value))
		}
	}
	return h
}
