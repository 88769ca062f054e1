package rig

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/koalagate/koalagate/e2e"
)

// TrueRefusal sends the requests of a user up to the refusal, and checks the answers.
func TrueRefusal(t *testing.T, g *e2e.Gateway, user string) {
	for left := 3; left >= 0; left-- {
		r := WantStatus(t, 200, "POST", g.URL+"/api/comments", user)
		if got, want := r.Header.Get("RateLimit-Remaining"), string(rune('0'+left)); got != want {
			t.Errorf("RateLimit-Remaining %q, want %q", got, want)
		}
	}
	r := WantStatus(t, 429, "POST", g.URL+"/api/comments", user)
	for header, want := range map[string]string{
		"Content-Type": "application/problem+json", "X-Koala-Decision": "deny", "X-Koala-Rule": "201", "X-Koala-Result": "2",
		"RateLimit-Policy": `"r201";q=4;w=90`, "RateLimit": `"r201";r=0;t=` + r.Header.Get("Retry-After"),
		"RateLimit-Limit": "4", "RateLimit-Remaining": "0", "RateLimit-Reset": r.Header.Get("Retry-After"),
	} {
		if got := r.Header.Values(header); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", header, got, want)
		}
	}
	if r.Header.Get("Retry-After") == "" {
		t.Errorf("no Retry-After in %v", r.Header)
	}
	var problem struct {
		Type, Title, Detail string
		Status              int
		Violated            []string `json:"violated-policies"`
	}
	if err := json.Unmarshal([]byte(r.Body), &problem); err != nil || problem.Status != 429 ||
		problem.Detail != "Too many requests" || len(problem.Violated) != 1 || problem.Violated[0] != "r201" {
		t.Errorf("body %q, %v; want a problem document of r201", r.Body, err)
	}
}

// Forge tries to make a gateway count a request under another act, path or address.
func Forge(t *testing.T, g *e2e.Gateway, app *e2e.App, user string) {
	forged := []string{
		"X-Koala-Param-Act: read", "X-Original-URI: /api/articles/1", "X-Original-Method: GET", "X-Forwarded-Uri: /api/articles/1",
		"X-Forwarded-Method: GET", "X-Real-IP: 198.51.100.66", "X-Forwarded-For: 198.51.100.66", "X-Koala-Status: 200",
	}
	headers := append([]string{user}, forged...)
	for range 4 {
		WantStatus(t, 200, "POST", g.URL+"/api/comments", headers...) // the address is not replaced with the blocked one
	}
	before := app.Reached()
	for _, path := range []string{"/api/comments", "//api/comments", "/api/%63omments", "/api/comments?a=/api/articles/1"} {
		WantStatus(t, 429, "POST", g.URL+path, headers...)
	}
	for _, path := range []string{"/api/./comments", "/api/x/../comments"} {
		WantRefused(t, "POST", g.URL+path, headers...)
	}
	if app.Reached() != before {
		t.Error("a refused request reached the application")
	}
}

// WantRefused sends a request whose path has dot segments. A gateway resolves
// them, and the rules refuse the request, or it refuses them itself.
func WantRefused(t *testing.T, method, url string, headers ...string) {
	t.Helper()
	if r := Send(t, method, url, headers...); r.Status != http.StatusTooManyRequests && r.Status != http.StatusBadRequest {
		t.Errorf("%s %s: %d; want 429 as without dot segments, or 400", method, url, r.Status)
	}
}
