package explain_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/internal/explain"
	"github.com/koalagate/koalagate/internal/tokens"
	"github.com/koalagate/koalagate/rules"
)

// tokenKey is a symmetric key, and tokenKeys its set.
const (
	tokenKey  = "a secret of the tests with 32 bytes or more"
	tokenKeys = `{"keys":[{"kty":"oct","k":"YSBzZWNyZXQgb2YgdGhlIHRlc3RzIHdpdGggMzIgYnl0ZXMgb3IgbW9yZQ"}]}`
)

const tokenRules = `[tokens]
main : keys.json; issuer=id; audience=api; algorithms=HS256; from=bearer, query t, cookie session
away : https://id.example.com/keys; issuer=id; audience=api; from=header X-Away
[params]
uid  : jwt main sub
team : jwt away team
[rules]
rule : [direct] [jwt.main=invalid,expired] [] [result=2; return=1]
rule : [direct] [jwt.away=unavailable; team=x] [] [result=2; return=2]
rule : [count] [uid=+] [time=60; count=5] [result=2; return=3]
`

func tokenSet(t *testing.T) *rules.Set {
	t.Helper()
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(tokenRules + results)}}, rules.Options{
		OpenKeys: func(string, string) ([]byte, error) { return []byte(tokenKeys), nil }, OpenToken: tokens.Offline,
	})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	return set
}

func signed(t *testing.T, claims jwt.MapClaims) string {
	t.Helper()
	text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(tokenKey))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestTokensAreExplained holds that a report says where a token is from, how its verification
// ended and why it is not valid, and that no report has the token or a part of it.
func TestTokensAreExplained(t *testing.T) {
	set := tokenSet(t)
	end := time.Now().Add(time.Hour).Unix()
	good := signed(t, jwt.MapClaims{"iss": "id", "aud": "api", "exp": end, "sub": "ann", "jti": "3f0b8c1d"})
	late := signed(t, jwt.MapClaims{"iss": "id", "aud": "api", "exp": end - 7200, "sub": "ann"})
	other := signed(t, jwt.MapClaims{"iss": "id", "aud": "app", "exp": end, "sub": "ann"})
	forged := good[:len(good)-8] + "AAAAAAAA"
	const places = "bearer, query t, cookie session"
	away := explain.Token{Name: "away", Outcome: "absent", From: "header x-away"}
	for _, c := range []struct {
		name, target string
		headers      http.Header
		want         []explain.Token
		text         string
	}{
		{"none", "/", nil, []explain.Token{{Name: "main", Outcome: "absent", From: places}, away}, "token main: absent, not in " + places},
		{"valid", "/", bearer(good), []explain.Token{{Name: "main", Outcome: "valid", From: "bearer"}, away}, "token main: valid, from bearer"},
		{"in the query", "/?a=b&t=" + good, nil, []explain.Token{{Name: "main", Outcome: "valid", From: "query t"}, away}, "/?a=b&t=*** at extauthz"},
		{"in the query, escaped", "/?%74=" + url.QueryEscape(good) + "&z", nil, []explain.Token{{Name: "main", Outcome: "valid", From: "query t"}, away}, "/?%74=***&z at extauthz"},
		{"expired", "/", http.Header{"Cookie": {"session=" + late}}, []explain.Token{{Name: "main", Outcome: "expired", From: "cookie session", Reason: "its exp is over"}, away}, "token main: expired, from cookie session: its exp is over"},
		{"forged", "/", bearer(forged), []explain.Token{{Name: "main", Outcome: "invalid", From: "bearer", Reason: "its signature is wrong"}, away}, "its signature is wrong"},
		{"another audience", "/", bearer(other), []explain.Token{{Name: "main", Outcome: "invalid", From: "bearer", Reason: "its aud is another audience"}, away}, "its aud is another audience"},
		{
			"two", "/",
			http.Header{"Authorization": {"Bearer " + good, "Bearer " + other}},
			[]explain.Token{{Name: "main", Outcome: "invalid", From: "bearer", Reason: "the request has several tokens there, of which programs may use different ones, or an empty one"}, away},
			"several tokens",
		},
		{
			"without keys", "/",
			http.Header{"X-Away": {good}},
			[]explain.Token{{Name: "main", Outcome: "absent", From: places}, {Name: "away", Outcome: "unavailable", From: "header x-away", Reason: "no keys have been loaded yet"}},
			"token away: unavailable, from header x-away: no keys have been loaded yet",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			report := answer(t, set, explain.Options{Method: "GET", Target: c.target, Headers: c.headers, Peer: "192.0.2.7"})
			if diff := cmp.Diff(c.want, report.Tokens); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for _, p := range report.Params {
				if strings.HasPrefix(p.Name, "jwt.") && p.From != "[tokens]" {
					t.Errorf("%s is from %q; want [tokens]", p.Name, p.From)
				}
			}
			var out bytes.Buffer
			report.WriteText(&out, explain.TextOptions{All: true})
			if !strings.Contains(out.String(), c.text) {
				t.Errorf("%q is missing in\n%s", c.text, out.String())
			}
			document, err := json.Marshal(report)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(document)
			for _, token := range []string{good, late, other, forged} {
				for _, part := range append(strings.Split(token, "."), "3f0b8c1d") {
					if strings.Contains(out.String(), part) {
						t.Errorf("the report has %q of a token:\n%s", part, out.String())
					}
				}
			}
		})
	}
}

// A parameter that has a token as it is shows a mark in its place, wherever a report has its value.
func TestTokensInParametersAreHidden(t *testing.T) {
	const text = `[tokens]
main : keys.json; issuer=id; audience=api; algorithms=HS256; from=bearer, header X-Token, cookie session, query t
[tables]
plans : plans.csv
[params]
uid     : jwt main sub
raw     : header Authorization lower else client-ip
one     : header X-Token
cookie  : cookie session
cookies : header Cookie
query   : query t
hash    : header X-Token hashed
[forward]
X-Raw : one
[rules]
rule : [direct] [jwt.main=unavailable; raw=x; query=+; cookie=x] [] [result=2; return=1]
rule : [count] [uid=+; raw=+; one=+; cookie=+; cookies=+; query=+; hash=+] [time=60; count=table plans.count by one else 5] [result=2; return=3]
`
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text + results)}}, rules.Options{
		OpenKeys: func(string, string) ([]byte, error) { return []byte(tokenKeys), nil },
		OpenTable: func(string, string) (*rules.Table, error) {
			return rules.ParseTable("plans.csv", strings.NewReader("key,count\na,1\n"))
		}, OpenToken: tokens.Offline,
	})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	token := signed(t, jwt.MapClaims{"iss": "id", "aud": "api", "exp": time.Now().Add(time.Hour).Unix(), "sub": "ann"})
	headers := bearer(token)
	headers.Set("X-Token", token)
	headers.Set("Cookie", "a=b; session="+token)
	report := answer(t, set, explain.Options{Method: "GET", Target: "/?t=" + token, Headers: headers, Peer: "192.0.2.7"})
	var out bytes.Buffer
	report.WriteText(&out, explain.TextOptions{All: true})
	document, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(document)
	for _, part := range append(strings.Split(token, "."), token) {
		if strings.Contains(strings.ToLower(out.String()), strings.ToLower(part)) {
			t.Errorf("the report has %q of a token:\n%s", part, out.String())
		}
	}
	for _, p := range report.Params {
		if hides := p.Value == "***"; hides != slices.Contains([]string{"raw", "one", "cookie", "cookies", "query"}, p.Name) {
			t.Errorf("%s is %q", p.Name, p.Value)
		}
	}
	if report = answer(t, set, explain.Options{Method: "GET", Target: "/", Peer: "192.0.2.7"}); !slices.Contains(report.Params, explain.Param{Name: "raw", Value: "192.0.2.7", From: "client-ip"}) {
		t.Errorf("the address is hidden: %+v", report.Params)
	}
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }
