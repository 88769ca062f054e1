package mapping

import (
	"net/http"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/rules"
)

// stubVerifier finds the tokens good, ann and {ann} valid, whose sub is their text, and late expired. It
// counts its calls.
type stubVerifier struct {
	of    *rules.JWT
	calls *int
}

func (v stubVerifier) Verify(token string) (rules.JWTOutcome, []string) {
	*v.calls++
	switch token {
	case "good", "ann", "{ann}":
		claims := make([]string, len(v.of.Claims))
		for i := range claims {
			claims[i] = token
		}
		return rules.JWTValid, claims
	case "late":
		return rules.JWTExpired, nil
	case "busy":
		return rules.JWTUnavailable, nil
	}
	return rules.JWTInvalid, nil
}

// tokenSet parses a file with a token, and counts its verifications.
func tokenSet(t testing.TB, words, params, routes, conditions string) (set *rules.Set, calls *int) {
	t.Helper()
	calls = new(int)
	text := "[tokens]\nmain : keys.json; issuer=i" + words + "\n[params]\n" + params + "\n[routes]\n" + routes +
		"\n[rules]\nrule : [count] [" + conditions + "] [time=60; count=5] [result=2; return=1]\n[result]\n0 : {}\n1 : {}\n2 : {\"Err_no\":1}\n"
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{
		OpenKeys: func(_, _ string) ([]byte, error) { return nil, nil },
		OpenToken: func(of *rules.JWT, _ []byte) (rules.JWTVerifier, []error, error) {
			return stubVerifier{of, calls}, nil, nil
		},
	})
	if set == nil {
		t.Fatal(findings)
	}
	return set, calls
}

func TestPlacesOfTokens(t *testing.T) {
	cookie := "; from=cookie session"
	for _, c := range []struct {
		name, words, path string
		headers           http.Header
		want              string
	}{
		{"no token", "", "/", nil, "absent"},
		{"bearer", "", "/", http.Header{"Authorization": {"Bearer good"}}, "valid good"},
		{"bearer in capitals, with blanks", "", "/", http.Header{"Authorization": {"  BEARER   good "}}, "valid good"},
		{"bearer after a tab", "", "/", http.Header{"Authorization": {"bearer\tgood"}}, "valid good"},
		{"bearer, expired", "", "/", http.Header{"Authorization": {"Bearer late"}}, "expired"},
		{"bearer, no processor", "", "/", http.Header{"Authorization": {"Bearer busy"}}, "unavailable"},
		{"bearer, forged", "", "/", http.Header{"Authorization": {"Bearer x"}}, "invalid"},
		{"bearer without a token", "", "/", http.Header{"Authorization": {"Bearer"}}, "invalid"},
		{"bearer with blanks for a token", "", "/", http.Header{"Authorization": {"Bearer   "}}, "invalid"},
		{"two bearers", "", "/", http.Header{"Authorization": {"Bearer good, Bearer good"}}, "invalid"},
		{"a bearer and a comma", "", "/", http.Header{"Authorization": {"Bearer good,"}}, "invalid"},
		{"a bearer after another scheme", "", "/", http.Header{"Authorization": {"Basic YTpi, bearer good"}}, "invalid"},
		{"a bearer before another scheme", "", "/", http.Header{"Authorization": {"Bearer good,Basic YTpi"}}, "invalid"},
		{"two headers", "", "/", http.Header{"Authorization": {"Bearer good", "Bearer good"}}, "invalid"},
		{"two headers of another scheme", "", "/", http.Header{"Authorization": {"Basic YTpi", "Basic YTpi"}}, "invalid"},
		{"another scheme", "", "/", http.Header{"Authorization": {"Basic YTpi"}}, "absent"},
		{"another scheme with commas", "", "/", http.Header{"Authorization": {`Digest username="bearer", realm="a, b", uri="/"`}}, "absent"},
		{"a scheme that begins alike", "", "/", http.Header{"Authorization": {"BearerX good"}}, "absent"},
		{"an empty header", "", "/", http.Header{"Authorization": {""}}, "absent"},
		{"bearer elsewhere", "", "/", http.Header{"Authentication": {"Bearer good"}}, "absent"},

		{"a header", "; from=header X-Token", "/", http.Header{"X-Token": {" good "}}, "valid good"},
		{"a header, twice", "; from=header X-Token", "/", http.Header{"X-Token": {"good", "good"}}, "invalid"},
		{"a header, blank", "; from=header X-Token", "/", http.Header{"X-Token": {"  "}}, "absent"},
		{"Authorization alone for a header", "; from=header X-Token", "/", http.Header{"Authorization": {"Bearer good"}}, "absent"},

		{"a cookie", cookie, "/", http.Header{"Cookie": {"a=b; session=good; c=d"}}, "valid good"},
		{"a cookie in quotes", cookie, "/", http.Header{"Cookie": {`session="good"`}}, "valid good"},
		{"a cookie, twice the same", cookie, "/", http.Header{"Cookie": {"session=good; session=good"}}, "valid good"},
		{"cookies that differ", cookie, "/", http.Header{"Cookie": {"session=good; session=ann"}}, "invalid"},
		{"cookies that differ in two headers", cookie, "/", http.Header{"Cookie": {"session=good", "session=ann"}}, "invalid"},
		{"cookies, one of them empty", cookie, "/", http.Header{"Cookie": {"session=; session=good"}}, "valid good"},
		{"a cookie of another case", cookie, "/", http.Header{"Cookie": {"Session=good"}}, "absent"},
		{"a cookie whose name ends alike", cookie, "/", http.Header{"Cookie": {"xsession=good"}}, "absent"},

		{"the query", "; from=query token", "/?a=b&token=good", nil, "valid good"},
		{"the query, escaped", "; from=query token", "/?t%6Fken=go%6Fd", nil, "valid good"},
		{"the query, twice the same", "; from=query token", "/?token=good&token=good", nil, "valid good"},
		{"the query, two", "; from=query token", "/?token=good&token=ann", nil, "invalid"},
		{"the query, empty", "; from=query token", "/?token=", nil, "absent"},

		{"the first place of several", "; from=cookie session, bearer", "/", http.Header{"Authorization": {"Bearer ann"}, "Cookie": {"session=good"}}, "valid good"},
		{"the second place of several", "; from=cookie session, bearer", "/", http.Header{"Authorization": {"Bearer ann"}, "Cookie": {"session="}}, "valid ann"},
		{"a wrong token in the first place", "; from=cookie session, bearer", "/", http.Header{"Authorization": {"Bearer ann"}, "Cookie": {"session=x"}}, "invalid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			set, _ := tokenSet(t, c.words, "uid : jwt main sub", "", "uid=+; jwt.main=+")
			var p rules.Params
			if err := Params(set, &Request{Door: doorname.Middleware, Method: "GET", Path: c.path, Host: "h", Peer: "203.0.113.9", Headers: HTTPHeaders(c.headers)}, &Options{}, &p); err != nil {
				t.Fatal(err)
			}
			outcome, _ := p.Get("jwt.main")
			uid, _ := p.Get("uid")
			if got := strings.TrimSpace(outcome + " " + uid); got != c.want {
				t.Errorf("%s; want %s", got, c.want)
			}
		})
	}
}

// Every door that receives a request verifies its token, in the way in which the gateways of the
// door join headers. Doors whose callers name the parameters leave them to the callers.
func TestTokensAtDoors(t *testing.T) {
	set, _ := tokenSet(t, "; from=bearer, cookie session", "uid : jwt main sub else descriptor user", "", "uid=+; jwt.main=+")
	for _, door := range doorname.All() {
		for headers, want := range map[string]string{
			"authorization=Bearer good": "valid good", "authorization=Bearer {ann}": "valid {ann}", "authorization=Bearer x": "invalid", "authorization=Bearer good,Bearer good": "invalid", "": "absent",
			"cookie=a=b; session=ann": "valid ann", "cookie=session=ann; session=good": "invalid",
		} {
			request := &Request{
				Door: door, Method: "GET", Path: "/", Host: "h", Peer: "203.0.113.9",
			}
			all := mapHeaders{
				"x-original-method": "GET", "x-original-uri": "/", "x-real-ip": "203.0.113.9",
				"x-forwarded-method": "GET", "x-forwarded-uri": "/", "x-forwarded-for": "203.0.113.9",
			}
			if name, value, found := strings.Cut(headers, "="); found {
				all[name] = value
			}
			request.Headers = all
			if doorname.Of(door).NamesParams() {
				request.Entries, request.Args, want = []Entry{{"user", "eve"}}, []Entry{{"uid", "eve"}}, "eve"
			}
			var p rules.Params
			if err := Params(set, request, &Options{}, &p); err != nil {
				t.Fatal(door, err)
			}
			outcome, _ := p.Get("jwt.main")
			uid, _ := p.Get("uid")
			if got := strings.TrimSpace(outcome + " " + uid); got != want {
				t.Errorf("%s, %q: %s; want %s", door, headers, got, want)
			}
		}
	}
}

// Nothing that a gateway, a route or a client says replaces the outcome, and no claim stands for
// a token that is not valid.
func TestOutcomesAreNotReplaced(t *testing.T) {
	set, _ := tokenSet(t, "", "jwt.main : gateway\nuid : jwt main sub", "GET /x : jwt.main=valid", "uid=+; jwt.main=+")
	for _, request := range []*Request{
		{Door: doorname.ExtAuthz, Context: map[string]string{"jwt.main": "valid"}, Peer: "203.0.113.9", Headers: mapHeaders{"authorization": "Bearer x"}},
		{Door: doorname.AuthRequest, Headers: mapHeaders{
			"authorization": "Bearer x", "x-koala-param-jwt-main": "valid", "x-original-method": "GET", "x-original-uri": "/x", "x-real-ip": "203.0.113.9",
		}},
		{Door: doorname.AuthRequest, Headers: mapHeaders{
			"authorization": "Bearer x", "x-original-method": "GET", "x-original-uri": "/x", "x-real-ip": "203.0.113.9",
		}},
		{Door: doorname.Middleware, Context: map[string]string{"jwt.main": "valid"}, Peer: "203.0.113.9", Headers: HTTPHeaders{"Authorization": {"Bearer x"}}},
	} {
		request.Method, request.Host = "GET", "h"
		request.Path = "/x"
		if request.Door == doorname.AuthRequest {
			request.Path = "/v1/auth-request?jwt.main=valid"
		}
		var p rules.Params
		if err := Params(set, request, &Options{}, &p); err != nil {
			t.Fatal(err)
		}
		if outcome, _ := p.Get("jwt.main"); outcome != "invalid" {
			t.Errorf("%s: the outcome is %q; want invalid", request.Door, outcome)
		}
		if uid, found := p.Get("uid"); found {
			t.Errorf("%s: an invalid token has the claim %q", request.Door, uid)
		}
	}
}

// A token that nothing uses is not verified, and one that several sources use is verified once.
func TestTokensAreVerifiedOnce(t *testing.T) {
	request := &Request{Door: doorname.Middleware, Method: "GET", Path: "/", Host: "h", Peer: "203.0.113.9", Headers: HTTPHeaders{"Authorization": {"Bearer good"}}}
	for _, c := range []struct {
		name, params, conditions string
		want                     int
	}{
		{"unused", "uid : header X-User", "uid=+", 0},
		{"in a rule alone", "uid : header X-User", "uid=+; jwt.main=valid", 1},
		{"in [params] alone", "uid : jwt main sub", "ip=+", 1},
		{"several tokens, which are counted", "uid : jwt main sub", "ip=+", 1},
		{"several claims", "uid : jwt main sub\nplan : jwt main plan else jwt main tier\nadmin : jwt main roles has admin", "uid=+; plan=+; jwt.main=valid", 1},
	} {
		set, calls := tokenSet(t, "", c.params, "", c.conditions)
		var p rules.Params
		request := request
		if strings.HasPrefix(c.name, "several tokens") {
			two := *request
			two.Headers = HTTPHeaders{"Authorization": {"Bearer good, Bearer good"}}
			request = &two
		}
		if err := Params(set, request, &Options{}, &p); err != nil {
			t.Fatal(err)
		}
		if _, found := p.Get("jwt.main"); *calls != c.want || found != (c.want > 0) {
			t.Errorf("%s: %d verifications, the outcome is there: %v; want %d", c.name, *calls, found, c.want)
		}
	}
}
