package rules

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
)

// openKeys and openToken stand for the files keys.json and weak.json and for their verifier,
// which finds two tokens valid: "good", whose claims are "claim 0" and so on, and "late", which
// has expired.
func openKeys(_, path string) ([]byte, error) {
	if path != "keys.json" && path != "weak.json" {
		return nil, fs.ErrNotExist
	}
	return []byte(path), nil
}

func openToken(of *JWT, keys []byte) (JWTVerifier, []error, error) {
	if strings.HasPrefix(string(keys), "weak") {
		return stubVerifier{of}, []error{errors.New("key 1: an RSA key of 1024 bits; want 2048 to 8192")}, nil
	}
	return stubVerifier{of}, nil, nil
}

type stubVerifier struct{ of *JWT }

func (v stubVerifier) Verify(token string) (JWTOutcome, []string) {
	switch token {
	case "good":
		claims := make([]string, len(v.of.Claims))
		for i, c := range v.of.Claims {
			claims[i] = strings.Join(c.Path, "/") + c.Has
		}
		return JWTValid, claims
	case "late":
		return JWTExpired, nil
	}
	return JWTInvalid, nil
}

const tokenRules = `[rules]
rule : [direct] [jwt.main=invalid,expired,unavailable] [] [result=2; return=1]
rule : [count] [uid=+] [time=60; count=5] [result=2; return=2]
`

func parseTokens(t *testing.T, text string) *Set {
	t.Helper()
	set, findings := Parse([]Source{{"rules.conf", []byte(text + entries)}}, Options{OpenKeys: openKeys, OpenToken: openToken})
	if set == nil {
		t.Fatal(findings)
	}
	return set
}

func TestWordsOfTokens(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"keys.json; issuer=i", `0 "keys.json" "i" [] ["RS256" "RS384" "RS512" "PS256" "PS384" "PS512" "ES256" "ES384" "ES512" "EdDSA"] [{0 }] 1m0s 10m0s ""`},
		{
			"keys.json; issuer=https://id.example.com/?a=b; audience=api, web; leeway=0; typ=application/AT+jwt;",
			`0 "keys.json" "https://id.example.com/?a=b" ["api" "web"] ["RS256" "RS384" "RS512" "PS256" "PS384" "PS512" "ES256" "ES384" "ES512" "EdDSA"] [{0 }] 0s 10m0s "at+jwt"`,
		},
		{
			"keys.json; issuer=i; algorithms=ES256,EdDSA; from=cookie Session, header X-Token, query token, bearer; leeway=10m",
			`0 "keys.json" "i" [] ["ES256" "EdDSA"] [{2 Session} {1 x-token} {3 token} {0 }] 10m0s 10m0s ""`,
		},
		{"https://id.example.com/jwks; issuer=i; refresh=10s", `1 "https://id.example.com/jwks" "i" [] ["RS256" "RS384" "RS512" "PS256" "PS384" "PS512" "ES256" "ES384" "ES512" "EdDSA"] [{0 }] 1m0s 10s ""`},
		{"oidc  http://127.0.0.1:8080/realms/corp; refresh=24h", `2 "http://127.0.0.1:8080/realms/corp" "http://127.0.0.1:8080/realms/corp" [] ["RS256" "RS384" "RS512" "PS256" "PS384" "PS512" "ES256" "ES384" "ES512" "EdDSA"] [{0 }] 1m0s 24h0m0s ""`},
	} {
		t.Run(c.line, func(t *testing.T) {
			set := parseTokens(t, "[tokens]\nmain : "+c.line+" # comment\n[params]\nuid : jwt main sub\n"+tokenRules)
			if got := set.Tokens[0].Terms(); !strings.HasPrefix(got, c.want+" ") {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestClaimsOfSources(t *testing.T) {
	set := parseTokens(t, `[tokens]
main : keys.json; issuer=i
[params]
uid   : jwt main sub
again : jwt main sub hashed
deep  : jwt main realm_access.roles has admin
dots  : jwt main "https://example.com/a b".plan."x.y" lower
`+tokenRules)
	outcome, claims := set.Tokens[0].Verify("good")
	if outcome != JWTValid || len(claims) != 3 {
		t.Fatalf("%v, %q; want three claims", outcome, claims)
	}
	for name, want := range map[string]string{
		"uid": "jwt main sub", "again": "jwt main sub hashed", "deep": "jwt main realm_access.roles has admin",
		"dots": `jwt main "https://example.com/a b".plan."x.y" lower`,
	} {
		for _, d := range set.Params {
			if d.Name != name {
				continue
			}
			if got := d.Sources[0].String(); got != want {
				t.Errorf("%s: %s; want %s", name, got, want)
			}
		}
	}
	for i, want := range []string{"sub", "realm_access/rolesadmin", "https://example.com/a b/plan/x.y"} {
		if claims[i] != want {
			t.Errorf("claim %d: %q; want %q", i, claims[i], want)
		}
	}
}

// Keys are part of the hash, so that a reload notices another key, and of the changes.
func TestKeysBelongToTheSet(t *testing.T) {
	const text = "[tokens]\nmain : keys.json; issuer=i\n[params]\nuid : jwt main sub\n" + tokenRules + entries
	parse := func(keys string) *Set {
		set, findings := Parse([]Source{{"rules.conf", []byte(text)}}, Options{
			OpenKeys: func(_, _ string) ([]byte, error) { return []byte(keys), nil }, OpenToken: openToken,
		})
		if set == nil {
			t.Fatal(findings)
		}
		return set
	}
	one, same, other := parse("keys 1"), parse("keys 1"), parse("keys 2")
	if one.Hash != same.Hash || !Compare(one, same).Empty() {
		t.Error("equal keys are another set")
	}
	if changes := Compare(one, other); one.Hash == other.Hash || len(changes.Tokens) != 1 || changes.Tokens[0] != "main" {
		t.Errorf("other keys are the same set, or the changes %+v lack them", changes)
	}
	if text, err := one.OpenKeys("rules.conf", "keys.json"); string(text) != "keys 1" || err != nil {
		t.Errorf("%q, %v; want the keys of the set", text, err)
	}
	if _, err := one.OpenKeys("rules.conf", "/etc/passwd"); err == nil {
		t.Error("the set opens files that it does not have")
	}
}

// A file without [tokens] may have parameters that are named like outcomes, as before.
func TestParametersNamedLikeOutcomes(t *testing.T) {
	set := parseTokens(t, "[rules]\nrule : [count] [jwt.sub=+] [time=60; count=5] [result=2; return=1]\n")
	if set.Tokens != nil {
		t.Errorf("tokens: %v", set.Tokens)
	}
	declared := parseTokens(t, "[tokens]\nmain : keys.json; issuer=i\n[params]\njwt.sub : header X-Sub\n"+strings.Replace(tokenRules, "uid=+", "jwt.sub=+", 1))
	if !declared.Tokens[0].IsUsed() {
		t.Error("the token is not used")
	}
}

// A token whose outcome the application alone learns is verified, too.
func TestForwardedOutcomesUseTheToken(t *testing.T) {
	const rule = "[rules]\nrule : [count] [ip=+] [time=60; count=5] [result=2; return=1]\n"
	for forward, want := range map[string]bool{"X-Outcome : jwt.main": true, "X-Outcome : ip": false} {
		set := parseTokens(t, "[tokens]\nmain : keys.json; issuer=i\n[forward]\n"+forward+"\n"+rule)
		if got := set.Tokens[0].IsUsed(); got != want {
			t.Errorf("%s: the token is used: %t; want %t", forward, got, want)
		}
	}
}

// A token whose outcome selects a row of a table is verified, too.
func TestOutcomesAsKeysUseTheToken(t *testing.T) {
	table, err := ParseTable("plans.csv", strings.NewReader("outcome,rate,tier\nvalid,5,gold\n"))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{OpenKeys: openKeys, OpenToken: openToken, OpenTable: func(_, _ string) (*Table, error) { return table, nil }}
	for name, lines := range map[string]string{
		"[params]":    "[params]\ntier : table plans.tier by jwt.main\n[rules]\nrule : [count] [tier=+; ip=+] [time=60; count=5] [result=2; return=1]\n",
		"a threshold": "[rules]\nrule : [count] [ip=+] [time=60; count=table plans.rate by jwt.main else 1] [result=2; return=1]\n",
	} {
		text := "[tokens]\nmain : keys.json; issuer=i\n[tables]\nplans : plans.csv\n" + lines + entries
		set, findings := Parse([]Source{{"rules.conf", []byte(text)}}, o)
		if set == nil {
			t.Fatal(findings)
		}
		if !set.Tokens[0].IsUsed() {
			t.Errorf("%s: the token is not used", name)
		}
	}
}

// Without readers every token is an error, and an unused one is not opened.
func TestTokensWithoutReaders(t *testing.T) {
	const lines = "[tokens]\nmain : keys.json; issuer=i\n"
	for name, o := range map[string]Options{"no reader of files": {OpenToken: openToken}, "no verifiers": {OpenKeys: openKeys}} {
		if _, findings := Parse([]Source{{"rules.conf", []byte(lines + "[params]\nuid : jwt main sub\n" + tokenRules + entries)}}, o); !findings.HasErrors() || findings[0].Code != "E104" {
			t.Errorf("%s: %v; want E104", name, findings)
		}
	}
	if _, findings := Parse([]Source{{"rules.conf", []byte(lines + "[rules]\nrule : [count] [ip=+] [time=60; count=5] [result=2; return=1]\n" + entries)}}, Options{}); findings.HasErrors() {
		t.Errorf("an unused token: %v", findings)
	}
}
