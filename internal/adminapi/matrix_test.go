package adminapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/access"
)

// changing are the paths that need the token for changes: replay changes nothing, but takes
// seconds of a processor, and contents have the data of tables. All others need the token for reading, except sessions, which need
// none.
var changing = map[string]bool{
	"POST reset": true, "POST replay": true, "POST exceptions": true, "POST modes": true, "POST versions": true, "POST proposals/{number}": true, "POST contents/missing": true, "PUT contents/{hash}": true,
	"GET versions/{number}/contents/{hash}": true,
	"DELETE exceptions/{id}":                true, "DELETE instances/{id}": true, "DELETE trial": true,
}

// Each path refuses callers without the token that it needs, whatever they send, and lets
// all others pass to its answer.
func TestAuthorizationMatrix(t *testing.T) {
	const readToken = "token-for-reading"
	s := newStage(t, func(o *Options) { o.Tokens = &access.Tokens{Change: changeToken, Read: readToken, Exposed: true} })
	cookieOf := func(token string) string {
		cookie, _, _ := strings.Cut(s.ask("POST session", `{"token":"`+token+`"}`).Header().Get("Set-Cookie"), ";")
		return cookie
	}
	reader, changer := cookieOf(readToken), cookieOf(changeToken)
	callers := []struct {
		name    string
		headers []string
		level   access.Level
	}{
		{"nobody", nil, access.None},
		{"a wrong token", []string{"Authorization", "Bearer wrong"}, access.None},
		{"another scheme", []string{"Authorization", "Basic " + changeToken}, access.None},
		{"a token in the address", []string{"X-Token", changeToken}, access.None},
		{"a forged cookie", []string{"Cookie", "koalagate=forged"}, access.None},
		{"the cookie in a page of another site", []string{"Cookie", changer, "Sec-Fetch-Site", "cross-site"}, access.None},
		{"the cookie in a page of another port", []string{"Cookie", changer, "Sec-Fetch-Site", "same-site"}, access.None},
		{"the cookie in a page of another origin", []string{"Cookie", changer, "Origin", "https://evil.example"}, access.None},
		{"reader", []string{"Authorization", "Bearer " + readToken}, access.Read},
		{"reader by cookie", []string{"Cookie", reader}, access.Read},
		{"changer", []string{"Authorization", "Bearer " + changeToken}, access.Change},
		{"changer by cookie", []string{"Cookie", changer, "Sec-Fetch-Site", "same-origin"}, access.Change},
	}
	names := strings.NewReplacer("{number}", "1", "{from}", "1", "{to}", "2", "{hash}", strings.Repeat("0", 64), "{id}", "X")
	for _, one := range routes {
		line, needs := one.method+" "+one.path, access.Read
		switch {
		case one.path == "session":
			needs = access.None
		case changing[line]:
			needs = access.Change
		}
		if one.needs != needs {
			t.Errorf("%s needs level %d; want %d", line, one.needs, needs)
		}
		if one.path == "events" {
			continue // its answer does not end; TestLiveNeedsAToken has it
		}
		if one.path == "session" && one.method != http.MethodGet {
			continue // it would end or begin the sessions of this test
		}
		for _, c := range callers {
			w := s.ask(one.method+" "+names.Replace(one.path), "{}", c.headers...)
			refused := w.Code == http.StatusUnauthorized || w.Code == http.StatusForbidden || w.Code == http.StatusTooManyRequests
			if refused != (c.level < needs) {
				t.Errorf("%s by %s: %d %s", line, c.name, w.Code, w.Body)
			}
		}
	}
}
