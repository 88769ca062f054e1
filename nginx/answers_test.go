package nginx_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/nginx"
)

// answers lists the complete answers of each door: status, headers by name, body.
var answers = []struct {
	name    string
	target  string
	headers []string
	hits    int // number of calls; the last answer is checked
	want    string
}{
	{"auth-request allows", "/v1/auth-request", viaNginx("POST", "/comments?a=1"), 1, `200
Cache-Control: no-store
Content-Length: 0
Ratelimit-Limit: 2
Ratelimit-Policy: "r201";q=2;w=90
Ratelimit-Remaining: 1
Ratelimit-Reset: 90
Ratelimit: "r201";r=1;t=90
X-Koala-Decision: allow
X-Koala-Result: 1

`},
	{"auth-request marks for the application", "/v1/auth-request?act=soft", append(viaNginx("GET", "/"), "X-Koala-Mark", "forged"), 2, `200
Cache-Control: no-store
Content-Length: 0
X-Koala-Decision: allow
X-Koala-Mark: slow, cheap
X-Koala-Result: 1

`},
	{"forward-auth marks for the application", "/v1/forward-auth?act=soft", viaCaddy("GET", "/"), 2, `200
Cache-Control: no-store
Content-Length: 0
X-Koala-Decision: allow
X-Koala-Mark: slow, cheap
X-Koala-Result: 1

`},
	{"auth-request where no rule matches", "/v1/auth-request", viaNginx("GET", "/"), 1, `200
Cache-Control: no-store
Content-Length: 0
X-Koala-Decision: none
X-Koala-Result: 0

`},
	{"auth-request over a limit", "/v1/auth-request", viaNginx("POST", "/comments"), 3, `403
Content-Length: 0
Content-Type: application/problem+json
Ratelimit-Limit: 2
Ratelimit-Policy: "r201";q=2;w=90
Ratelimit-Remaining: 0
Ratelimit-Reset: 90
Ratelimit: "r201";r=0;t=90
Retry-After: 90
X-Koala-Body: {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,"violated-policies":["r201"]}
X-Koala-Decision: deny
X-Koala-Result: 2
X-Koala-Rule: 201
X-Koala-Status: 429

`},
	{"auth-request with its native status", "/v1/auth-request?act=once&_deny=native", viaNginx("GET", "/"), 2, `429
Content-Length: 0
Content-Type: application/problem+json
Ratelimit-Limit: 1
Ratelimit-Policy: "r202";q=1;w=90
Ratelimit-Remaining: 0
Ratelimit-Reset: 90
Ratelimit: "r202";r=0;t=90
Retry-After: 90
X-Koala-Body: {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,"violated-policies":["r202"]}
X-Koala-Decision: deny
X-Koala-Result: 2
X-Koala-Rule: 202
X-Koala-Status: 429

`},
	{"auth-request of a black list", "/v1/auth-request", viaNginx("GET", "/black"), 1, `403
Content-Length: 0
Content-Type: application/problem+json
X-Koala-Body: {"type":"about:blank","title":"Forbidden","status":403}
X-Koala-Decision: deny
X-Koala-Result: 2
X-Koala-Rule: 100
X-Koala-Status: 403

`},
	{"auth-request challenges", "/v1/auth-request", viaNginx("GET", "/captcha"), 1, `401
Content-Length: 0
Content-Type: application/problem+json
X-Koala-Body: {"type":"about:blank","title":"Forbidden","status":403,"challenge":{"vcode_len":4,"vcode_type":0}}
X-Koala-Decision: challenge
X-Koala-Result: 3
X-Koala-Rule: 101
X-Koala-Status: 403

`},
	{"auth-request asks for a token", "/v1/auth-request", viaNginx("GET", "/members"), 1, `401
Content-Length: 0
Content-Type: application/problem+json
Www-Authenticate: Bearer
X-Koala-Body: {"type":"about:blank","title":"Unauthorized","status":401}
X-Koala-Decision: deny
X-Koala-Result: 9
X-Koala-Rule: 107
X-Koala-Status: 401

`},
	{"auth-request in an entry's own words", "/v1/auth-request", viaNginx("GET", "/teapot"), 1, `403
Content-Length: 0
Content-Type: text/plain; charset=utf-8
X-Koala-Body: {   "stout": true }
X-Koala-Decision: deny
X-Koala-Location: /tea
X-Koala-Result: 4
X-Koala-Rule: 102
X-Koala-Status: 418
X-Pot: short

`},
	{"auth-request keeps headers in their lines", "/v1/auth-request", viaNginx("GET", "/crlf"), 1, `403
Content-Length: 0
Content-Type: text/plain; charset=utf-8
X-Koala-Body: a  Set-Cookie: forged=1    b c d
X-Koala-Decision: deny
X-Koala-Result: 8
X-Koala-Rule: 106
X-Koala-Status: 403
X-Two: a b

`},
	{"auth-request keeps its headers short", "/v1/auth-request", viaNginx("GET", "/long"), 1, `403
Content-Length: 0
Content-Type: application/problem+json
X-Koala-Body: {"type":"about:blank","title":"Forbidden","status":403}
X-Koala-Decision: deny
X-Koala-Result: 7
X-Koala-Rule: 105
X-Koala-Status: 403
X-Short: kept

`},
	{"auth-request takes a refusal with 200 for one", "/v1/auth-request?_deny=native", viaNginx("GET", "/fine"), 1, `403
Content-Length: 0
Content-Type: text/plain; charset=utf-8
X-Koala-Body: sorry
X-Koala-Decision: deny
X-Koala-Result: 5
X-Koala-Rule: 103
X-Koala-Status: 200

`},
	{"auth-request of a malformed path", "/v1/auth-request", viaNginx("GET", "/a%zz"), 1, `403
Content-Length: 0
Content-Type: application/problem+json
X-Koala-Body: {"type":"about:blank","title":"Bad Request","status":400,"detail":"malformed path: it contains an invalid escape; a percent sign is written %25"}
X-Koala-Status: 400

`},
	{"auth-request without a header", "/v1/auth-request", viaNginx("GET", "/")[2:], 1, `403
Content-Length: 0
Content-Type: application/problem+json
X-Koala-Body: {"type":"about:blank","title":"Forbidden","status":403,"detail":"auth-request: the check lacks a usable X-Original-Method; have the gateway set it"}
X-Koala-Status: 403

`},
	{"auth-request of a weight that never fits names no time", "/v1/auth-request", append(viaNginx("GET", "/comments"), "X-Size", "999999999", "X-User-Id", "heavy"), 1, `403
Content-Length: 0
Content-Type: application/problem+json
Ratelimit-Limit: 2
Ratelimit-Policy: "r201";q=2;w=90
Ratelimit-Remaining: 2
Ratelimit-Reset: 90
Ratelimit: "r201";r=2;t=90
X-Koala-Body: {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,"violated-policies":["r201"]}
X-Koala-Decision: deny
X-Koala-Result: 2
X-Koala-Rule: 201
X-Koala-Status: 429

`},
	{"forward-auth allows", "/v1/forward-auth", viaCaddy("POST", "/comments"), 1, `200
Cache-Control: no-store
Content-Length: 0
Ratelimit-Limit: 2
Ratelimit-Policy: "r201";q=2;w=90
Ratelimit-Remaining: 1
Ratelimit-Reset: 90
Ratelimit: "r201";r=1;t=90
X-Koala-Decision: allow
X-Koala-Result: 1

`},
	{"forward-auth over a limit", "/v1/forward-auth?act=once", viaCaddy("GET", "/"), 2, `429
Content-Length: 140
Content-Type: application/problem+json
Ratelimit-Limit: 1
Ratelimit-Policy: "r202";q=1;w=90
Ratelimit-Remaining: 0
Ratelimit-Reset: 90
Ratelimit: "r202";r=0;t=90
Retry-After: 90
X-Koala-Decision: deny
X-Koala-Result: 2
X-Koala-Rule: 202

{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,"violated-policies":["r202"]}`},
	{"forward-auth asks for a token", "/v1/forward-auth", viaCaddy("GET", "/members"), 1, `401
Content-Length: 58
Content-Type: application/problem+json
Www-Authenticate: Bearer
X-Koala-Decision: deny
X-Koala-Result: 9
X-Koala-Rule: 107

{"type":"about:blank","title":"Unauthorized","status":401}`},
	{"forward-auth challenges", "/v1/forward-auth", viaCaddy("GET", "/captcha"), 1, `403
Content-Length: 98
Content-Type: application/problem+json
X-Koala-Decision: challenge
X-Koala-Result: 3
X-Koala-Rule: 101

{"type":"about:blank","title":"Forbidden","status":403,"challenge":{"vcode_len":4,"vcode_type":0}}`},
	{"forward-auth in an entry's own words", "/v1/forward-auth", viaCaddy("GET", "/teapot"), 1, `418
Content-Length: 19
Content-Type: text/plain; charset=utf-8
Location: /tea
X-Koala-Decision: deny
X-Koala-Result: 4
X-Koala-Rule: 102
X-Pot: short

{
  "stout": true
}`},
	{"forward-auth takes a refusal with 200 for one", "/v1/forward-auth", viaCaddy("GET", "/fine"), 1, `403
Content-Length: 5
Content-Type: text/plain; charset=utf-8
X-Koala-Decision: deny
X-Koala-Result: 5
X-Koala-Rule: 103

sorry`},
	{"forward-auth of a malformed path", "/v1/forward-auth", viaCaddy("GET", "/a%zz"), 1, `400
Content-Length: 145
Content-Type: application/problem+json

{"type":"about:blank","title":"Bad Request","status":400,"detail":"malformed path: it contains an invalid escape; a percent sign is written %25"}`},
	{"ext-authz allows", "/v1/ext-authz/comments?act=black", []string{"X-Forwarded-For", "198.51.100.7"}, 1, `200
Cache-Control: no-store
Content-Length: 0
Ratelimit-Limit: 2
Ratelimit-Policy: "r201";q=2;w=90
Ratelimit-Remaining: 1
Ratelimit-Reset: 90
Ratelimit: "r201";r=1;t=90
X-Koala-Decision: allow
X-Koala-Result: 1

`},
	{"ext-authz finds its path through slashes and dots", "/v1/ext-authz//x/..//black", []string{"X-Forwarded-For", "198.51.100.7"}, 1, `403
Content-Length: 55
Content-Type: application/problem+json
X-Koala-Decision: deny
X-Koala-Result: 2
X-Koala-Rule: 100

{"type":"about:blank","title":"Forbidden","status":403}`},
	{"ext-authz keeps a refusal from being a failure", "/v1/ext-authz/down", []string{"X-Forwarded-For", "198.51.100.7"}, 1, `403
Content-Length: 55
Content-Type: application/problem+json
X-Koala-Decision: deny
X-Koala-Result: 6
X-Koala-Rule: 104

{"type":"about:blank","title":"Forbidden","status":403}`},
	{"accel allows", "/v1/accel", viaNginx("GET", "/"), 1, `200
Content-Length: 0
X-Accel-Redirect: @app
X-Koala-Decision: none
X-Koala-Result: 0

`},
	{"accel allows to a target of the list", "/v1/accel", append(viaNginx("GET", "/"), "X-Koala-Accel", "@other"), 1, `200
Content-Length: 0
X-Accel-Redirect: @other
X-Koala-Decision: none
X-Koala-Result: 0

`},
	{"accel to any other target", "/v1/accel", append(viaNginx("GET", "/"), "X-Koala-Accel", "@secret"), 1, `403
Content-Length: 125
Content-Type: application/problem+json

{"type":"about:blank","title":"Forbidden","status":403,"detail":"the gateway requests a target that is not in accel_targets"}`},
	{"accel denies before it looks at the target", "/v1/accel", append(viaNginx("GET", "/captcha"), "X-Koala-Accel", "@secret"), 1, `403
Content-Length: 98
Content-Type: application/problem+json
X-Koala-Decision: challenge
X-Koala-Result: 3
X-Koala-Rule: 101

{"type":"about:blank","title":"Forbidden","status":403,"challenge":{"vcode_len":4,"vcode_type":0}}`},
	{"accel denies whatever an entry's headers say", "/v1/accel", viaNginx("GET", "/teapot"), 1, `418
Content-Length: 19
Content-Type: text/plain; charset=utf-8
Location: /tea
X-Koala-Decision: deny
X-Koala-Result: 4
X-Koala-Rule: 102
X-Pot: short

{
  "stout": true
}`},
	{"a path of ours that is none", "/v1/auth-requests", viaNginx("GET", "/"), 1, `404
Content-Length: 55
Content-Type: application/problem+json

{"type":"about:blank","title":"Not Found","status":404}`},
}

func TestAnswers(t *testing.T) {
	for _, c := range answers {
		t.Run(c.name, func(t *testing.T) {
			o := options(t)
			o.AccelTargets = []string{"@app", "@other"}
			s := serve(t, nginx.New(o))
			var got string
			for range c.hits {
				got = text(t, check(t, s, "GET", c.target, c.headers...))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
