package ruletest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const tokenRules = `[tokens]
main   : https://id.example.com/keys; issuer=https://id.example.com/; audience=api,web
corp   : https://corp.example.com/keys; issuer=corp; algorithms=RS256; from=header X-Corp; leeway=0s; audience=api
ticket : https://id.example.com/keys; issuer=tickets; algorithms=ES384; from=cookie session; typ=at+jwt; audience=api
link   : https://id.example.com/keys; issuer=links; algorithms=PS512; from=query t; audience=api
unread : https://id.example.com/keys; issuer=unread; audience=api
[params]
uid   : jwt main sub
plan  : jwt main plan else "free"
admin : jwt corp realm_access.roles has admin
until : jwt main exp
seat  : jwt ticket seat
file  : jwt link file
[forward]
X-User-Id : uid
[rules]
rule : [direct] [jwt.main=invalid,expired] []                  [result=2; return=1]
rule : [direct] [jwt.main=unavailable]     []                  [result=2; return=2]
rule : [direct] [until before now]         []                  [result=2; return=3]
rule : [direct] [admin=yes]                []                  [result=0; return=4]
rule : [count]  [uid=+]                    [time=60; count=1]  [result=2; return=5]
rule : [count]  [jwt.ticket=invalid]       [time=60; count=9]  [result=2; return=6]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// runSteps runs a case with the steps, which are a list in YAML.
func runSteps(t *testing.T, conf, steps string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(filepath.Join(dir, "rules.conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Parse(path, []byte("rules: rules.conf\npeer: 192.0.2.7\ncases:\n  - name: one\n    steps:\n"+steps))
	if err != nil {
		return strings.ReplaceAll(err.Error(), dir+"/", "")
	}
	result, err := f.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	result.WriteText(&b)
	return strings.ReplaceAll(b.String(), dir+"/", "")
}

func TestTokensOfSteps(t *testing.T) {
	for _, c := range []struct{ name, steps, want string }{
		{"valid", `{request: GET /, token: {name: main, claims: {sub: ann, plan: gold}}, expect: {verdict: allow, params: {jwt.main: valid, uid: ann, plan: gold}}}`, "ok"},
		{"counted by a claim", `{request: GET /, token: {name: main, claims: {sub: ann}}, times: 2, expect: {verdict: deny, rule: 5}}`, "call 1 of 2"},
		{"expired", `{request: GET /, token: {name: main, outcome: expired}, expect: {rule: 1, params: {jwt.main: expired}}}`, "ok"},
		{"expired by the clock", `{request: GET /, token: {name: main, claims: {exp: -2m}}, expect: {rule: 1, params: {jwt.main: expired}}}`, "ok"},
		{"expired within its leeway", `{request: GET /, token: {name: main, claims: {exp: -10s}}, expect: {rule: 3, params: {jwt.main: valid}}}`, "ok"},
		{"a date", `{at: 2026-06-01T12:00, request: GET /, token: {name: main, claims: {exp: 2026-06-01T12:30}}, expect: {params: {until: 1780317000}}}`, "ok"},
		{"a date over", `{at: 2026-06-01T12:00, request: GET /, token: {name: main, claims: {exp: 2026-06-01}}, expect: {params: {jwt.main: expired}}}`, "ok"},
		{"no such time", `{request: GET /, token: {name: main, claims: {exp: soon}}, expect: allow}`, `step 1 at 2026-01-01 12:00:00 UTC: the token main: invalid time "soon" of a claim`},
		{"invalid", `{request: GET /, token: {name: main, outcome: invalid}, expect: {rule: 1, params: {jwt.main: invalid, uid: null}}}`, "ok"},
		{"unavailable", `{request: GET /, token: {name: main, outcome: unavailable}, expect: {rule: 2, params: {jwt.main: unavailable}}}`, "ok"},
		{"another issuer", `{request: GET /, token: {name: main, claims: {iss: me}}, expect: {params: {jwt.main: invalid}}}`, "ok"},
		{"another audience", `{request: GET /, token: {name: main, claims: {aud: [app]}}, expect: {params: {jwt.main: invalid}}}`, "ok"},
		{"without exp", `{request: GET /, token: {name: main, claims: {exp: null}}, expect: {params: {jwt.main: invalid}}}`, "ok"},
		{"not yet", `{request: GET /, token: {name: main, claims: {nbf: 10m}}, expect: {params: {jwt.main: invalid}}}`, "ok"},
		{"lists and objects", `{request: GET /, token: {name: corp, claims: {realm_access: {roles: [user, admin]}}}, expect: {rule: none, result: 0, params: {admin: "yes"}}}`, "rule: 4"},
		{"a header", `{request: GET /, token: {name: corp, claims: {realm_access: {roles: [user, admin]}}}, expect: {params: {jwt.corp: valid, jwt.main: absent}}}`, "ok"},
		{"a cookie", `{request: GET /, headers: {Cookie: a=b}, token: {name: ticket, claims: {seat: 7}}, expect: {params: {jwt.ticket: valid, seat: 7}}}`, "ok"},
		{"an argument", `{request: "GET /?a=b", token: {name: link, claims: {file: true}}, expect: {params: {jwt.link: valid, file: "true"}}}`, "ok"},
		{"several", `{request: GET /, token: [{name: main, claims: {sub: ann}}, {name: ticket, outcome: invalid}], expect: {params: {jwt.main: valid, jwt.ticket: invalid}}}`, "ok"},
		{"a header that is taken", `{request: GET /, headers: {Authorization: Basic x}, token: {name: main}, expect: allow}`, "the step has the header Authorization, where the token would be"},
		{"forwarded", `{request: GET /, token: {name: main, claims: {sub: ann}}, expect: {forward: {x-user-id: ann}}}`, "ok"},
		{"not forwarded", `{request: GET /, headers: {X-User-Id: eve}, expect: {forward: {X-User-Id: null}}}`, "ok"},
		{"forwarded otherwise", `{request: GET /, token: {name: main, claims: {sub: ann}}, expect: {forward: {X-User-Id: eve}}}`, "- forward X-User-Id: eve\n  + forward X-User-Id: ann"},
		{"an unknown token", `{request: GET /, token: {name: mian}, expect: allow}`, `c.yaml:6: unknown token "mian"; did you mean "main"?`},
		{"a token that nothing reads", `{request: GET /, token: {name: unread}, expect: allow}`, "c.yaml:6: no rule and no parameter reads the token unread"},
		{"an unknown header", `{request: GET /, expect: {forward: {X-UserId: null}}}`, `c.yaml:6: unknown header of [forward] "X-UserId"; did you mean "X-User-Id"?`},
		{"without a name", `{request: GET /, token: {claims: {}}, expect: allow}`, "c.yaml:6: the token has no name"},
		{"an unknown outcome", `{request: GET /, token: {name: main, outcome: absent}, expect: allow}`, `c.yaml:6: unknown outcome "absent"; want valid, expired, invalid, unavailable`},
		{"an unknown key", `{request: GET /, token: {name: main, claim: {}}, expect: allow}`, `c.yaml:6: unknown key "claim" of a token; did you mean "claims"?`},
		{"a token twice", `{request: GET /, token: [{name: main}, {name: main}], expect: allow}`, "c.yaml:6: the step has two tokens main"},
		{"a claim that is no number", `{request: GET /, token: {name: main, claims: {n: .nan}}, expect: allow}`, `c.yaml:6: invalid value ".nan" of a claim`},
		{"expired and its time", `{request: GET /, token: {name: main, outcome: expired, claims: {exp: 1h}}, expect: allow}`, "c.yaml:6: outcome: expired sets exp; remove exp from the claims"},
		{"a token of parameters", `{params: {a: 1}, token: {name: main}, expect: allow}`, "c.yaml:6: a token needs a request"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := runSteps(t, tokenRules, "      - "+c.steps)
			if isOK := strings.HasPrefix(got, "ok"); c.want == "ok" != isOK || !isOK && !strings.Contains(got, c.want) {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestTokensOfOtherLines holds that lines without tokens in the cases keep their own keys, and
// that a key of the run ends with it.
func TestTokensOfOtherLines(t *testing.T) {
	got := runSteps(t, tokenRules, `      - {request: GET /, token: {name: ticket, outcome: unavailable}, expect: {params: {jwt.ticket: unavailable}}}
      - {request: GET /, token: {name: ticket}, headers: {Authorization: Bearer a.b.c}, expect: {params: {jwt.ticket: valid, jwt.main: unavailable}}}
`)
	if !strings.HasPrefix(got, "ok") {
		t.Error(got)
	}
}
