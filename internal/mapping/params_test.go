package mapping

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/rules"
)

const plainRules = `
[rules]
rule : [count] [act=+] [time=60; count=1;] [result=2; return=1]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// plain returns a rule set without [params] and [routes].
func plain(t testing.TB) *rules.Set { return parse(t, plainRules) }

// with returns a rule set with these lines in [params] and [routes].
func with(t testing.TB, params, routes string) *rules.Set {
	return parse(t, "[params]\n"+params+"\n[routes]\n"+routes+plainRules)
}

// TestUnknownDoorIsRefused checks that Params maps the requests of the listed doors only:
// a door without a case must not be trusted like another.
func TestUnknownDoorIsRefused(t *testing.T) {
	for _, door := range []string{"", doorname.Program, "ExtAuthz", "telnet"} {
		wantRefusal(t, &Request{Door: door, Method: "GET", Path: "/", Peer: "198.51.100.7:1"}, &Options{}, http.StatusForbidden)
	}
	for _, door := range doorname.All() {
		err := Params(plain(t), &Request{Door: door, Method: "GET", Path: "/", Peer: "198.51.100.7:1"}, &Options{}, new(rules.Params))
		if err != nil && strings.Contains(err.Error(), "unknown") {
			t.Errorf("%s: %v; add a case to read", door, err)
		}
	}
}

// nginxCall returns a check as nginx sends it, with changed headers.
func nginxCall(changes map[string]string) *Request {
	headers := mapHeaders{
		"x-original-method": "POST", "x-original-uri": "/a?q=1", "x-real-ip": "198.51.100.7",
		"x-forwarded-host": "Shop.Example:443", "x-forwarded-proto": "https",
	}
	return &Request{
		Door: doorname.AuthRequest, Method: "GET", Path: "/v1/auth-request", Host: "koala:9981",
		Scheme: "http", Peer: "127.0.0.1:5000", Headers: change(headers, changes),
	}
}

// caddyCall returns a check as Caddy sends it, with changed headers.
func caddyCall(changes map[string]string) *Request {
	headers := mapHeaders{
		"x-forwarded-method": "POST", "x-forwarded-uri": "/a?q=1", "x-forwarded-for": "198.51.100.7",
		"x-forwarded-host": "shop.example", "x-forwarded-proto": "https",
	}
	return &Request{
		Door: doorname.ForwardAuth, Method: "GET", Path: "/v1/forward-auth", Host: "koala:9981",
		Scheme: "http", Peer: "127.0.0.1:5000", Headers: change(headers, changes),
	}
}

// envoyWebCall returns a check as Envoy sends it over HTTP, with changed headers.
func envoyWebCall(changes map[string]string) *Request {
	return &Request{
		Door: doorname.ExtAuthzWeb, Method: "POST", Path: "/v1/ext-authz/a?q=1", Host: "shop.example",
		Scheme: "http", Peer: "127.0.0.1:5000",
		Headers: change(mapHeaders{"x-forwarded-for": "198.51.100.7", "x-forwarded-proto": "https"}, changes),
	}
}

// change sets headers, and removes those with the value "-".
func change(headers mapHeaders, changes map[string]string) mapHeaders {
	for name, value := range changes {
		if value == "-" {
			delete(headers, name)
		} else {
			headers[name] = value
		}
	}
	return headers
}

// forged has every header of every family, as sent by a client that forges its address
// and path.
var forged = map[string]string{
	"x-original-method": "FORGED", "x-original-uri": "/forged", "x-original-url": "/forged",
	"x-real-ip": "192.0.2.66", "x-forwarded-method": "FORGED", "x-forwarded-uri": "/forged",
	"x-forwarded-for": "192.0.2.66", "x-forwarded-host": "forged.example", "x-forwarded-proto": "forged",
	"x-koala-param-act": "forged", "forwarded": "for=192.0.2.66;host=forged.example",
	"x-client-ip": "192.0.2.66", "true-client-ip": "192.0.2.66", "x-rewrite-url": "/forged",
	"x-http-method-override": "FORGED", "x-koala-param-door": "forged", "x-koala-param-ip": "192.0.2.66",
}

func TestDerived(t *testing.T) {
	for _, c := range []struct {
		name string
		call *Request
		want map[string]string
	}{
		{
			"extauthz: the fields of the message",
			&Request{
				Door: doorname.ExtAuthz, Method: "GET", Path: "/a?b", Host: "Shop.Example:80", Scheme: "HTTPS",
				Peer: "198.51.100.7", Headers: mapHeaders(forged),
			},
			map[string]string{
				"door": "extauthz", "method": "GET", "path": "/a", "host": "shop.example",
				"scheme": "https", "ip": "198.51.100.7",
			},
		},
		{
			"extauthz: a TCP check has an address alone",
			&Request{Door: doorname.ExtAuthz, Peer: "198.51.100.7"},
			map[string]string{"door": "extauthz", "ip": "198.51.100.7"},
		},
		{
			"extauthz: a peer on a unix socket has none",
			&Request{Door: doorname.ExtAuthz, Method: "GET", Path: "/", Host: "a", Scheme: "http", Peer: "/run/app.sock"},
			map[string]string{"door": "extauthz", "method": "GET", "path": "/", "host": "a", "scheme": "http"},
		},
		{
			"ext-authz: the call itself, whatever the headers say",
			envoyWebCall(change(maps.Clone(forged), map[string]string{
				"x-forwarded-for": "192.0.2.66, 198.51.100.7", "x-forwarded-proto": "https",
			})),
			map[string]string{
				"door": "ext-authz", "method": "POST", "path": "/a", "host": "shop.example",
				"scheme": "https", "ip": "198.51.100.7",
			},
		},
		{
			"ext-authz: no scheme said",
			envoyWebCall(map[string]string{"x-forwarded-proto": "-"}),
			map[string]string{
				"door": "ext-authz", "method": "POST", "path": "/a", "host": "shop.example",
				"scheme": "http", "ip": "198.51.100.7",
			},
		},
		{
			"ext-authz: the prefix alone is the root",
			func() *Request { r := envoyWebCall(nil); r.Path = extAuthzPrefix; return r }(),
			map[string]string{
				"door": "ext-authz", "method": "POST", "path": "/", "host": "shop.example",
				"scheme": "https", "ip": "198.51.100.7",
			},
		},
		{
			"auth-request: its own family",
			nginxCall(map[string]string{
				"x-forwarded-method": "FORGED",
				"x-forwarded-uri":    "/forged", "x-forwarded-for": "192.0.2.66", "x-koala-param-act": "forged",
			}),
			map[string]string{
				"door": "auth-request", "method": "POST", "path": "/a", "host": "shop.example",
				"scheme": "https", "ip": "198.51.100.7",
			},
		},
		{
			"auth-request: the URL in place of the URI, host and scheme unsaid",
			nginxCall(map[string]string{
				"x-original-uri": "-", "x-original-url": "https://shop.example/b?c",
				"x-forwarded-host": "-", "x-forwarded-proto": "-",
			}),
			map[string]string{
				"door": "auth-request", "method": "POST", "path": "/b", "host": "koala",
				"scheme": "http", "ip": "198.51.100.7",
			},
		},
		{
			"accel: as auth-request",
			func() *Request { r := nginxCall(nil); r.Door = doorname.Accel; return r }(),
			map[string]string{
				"door": "accel", "method": "POST", "path": "/a", "host": "shop.example",
				"scheme": "https", "ip": "198.51.100.7",
			},
		},
		{
			"forward-auth: its own family",
			caddyCall(map[string]string{
				"x-original-method": "FORGED", "x-original-uri": "/forged",
				"x-real-ip": "192.0.2.66", "x-koala-param-act": "forged",
			}),
			map[string]string{
				"door": "forward-auth", "method": "POST", "path": "/a", "host": "shop.example",
				"scheme": "https", "ip": "198.51.100.7",
			},
		},
		{
			"forward-auth: host and scheme unsaid",
			caddyCall(map[string]string{"x-forwarded-host": "{http.request.host}", "x-forwarded-proto": "-"}),
			map[string]string{
				"door": "forward-auth", "method": "POST", "path": "/a", "host": "koala",
				"scheme": "http", "ip": "198.51.100.7",
			},
		},
		{
			"forward-auth: of a host said twice the nearest gateway's word",
			caddyCall(map[string]string{"x-forwarded-host": "forged.example, shop.example", "x-forwarded-proto": "forged,https"}),
			map[string]string{
				"door": "forward-auth", "method": "POST", "path": "/a", "host": "shop.example",
				"scheme": "https", "ip": "198.51.100.7",
			},
		},
		{
			"middleware: the request itself and its peer",
			&Request{
				Door: doorname.Middleware, Method: "GET", Path: "/a", Host: "[::1]:80", Scheme: "http",
				Peer: "[2001:db8::9]:5000", Headers: mapHeaders(forged),
			},
			map[string]string{
				"door": "middleware", "method": "GET", "path": "/a", "host": "::1",
				"scheme": "http", "ip": "2001:db8::9",
			},
		},
		{
			"koala: the door and what the application says",
			&Request{
				Door: doorname.Koala, Method: "GET", Path: "/rule/browse?act=ask", Host: "koala", Scheme: "http",
				Peer: "127.0.0.1:5000", Headers: mapHeaders(forged),
				Args: []Entry{{"act", "ask"}, {"_hits", "2"}, {"qid", ""}, {"act", "list"}, {"", "x"}},
			},
			map[string]string{"door": "koala", "act": "ask"},
		},
		{
			"ratelimit: domain and entries, the first of a key",
			&Request{
				Door: doorname.RateLimit, Domain: "edge", Peer: "127.0.0.1:5000",
				Entries: []Entry{{"act", "ask"}, {"act", "list"}, {"a", ""}, {"a", "1"}, {"", "x"}},
			},
			map[string]string{"door": "ratelimit", "domain": "edge", "act": "ask"},
		},
		{
			"ratelimit: an entry takes neither door nor domain",
			&Request{Door: doorname.RateLimit, Domain: "edge", Entries: []Entry{{"door", "koala"}, {"domain", "x"}, {"path", "/"}}},
			map[string]string{"door": "ratelimit", "domain": "edge", "path": "/"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantParams(t, plain(t), c.call, &Options{}, c.want)
		})
	}
}

// TestRulesWarnOfUnknownDoors checks that every door can be named in a condition
// and that an unknown name gets a finding.
func TestRulesWarnOfUnknownDoors(t *testing.T) {
	for _, d := range append(doorname.All(), "no-door") {
		text := "[params]\nact : gateway\n[rules]\nrule : [direct] [act=a; door=" + d + "] [] [result=1; return=1]\n[result]\n0 : {}\n1 : {}\n"
		_, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{})
		if (len(findings) > 0) != (d == "no-door") {
			t.Errorf("door=%s: %v", d, findings)
		}
	}
}

func TestPrecedence(t *testing.T) {
	set := with(t, "act : header X-Act else gateway\nkey : gateway hashed", "* /a : act=route\n* /{act} : kind=variable")
	get := func(door string, path string, headers map[string]string) *Request {
		switch door {
		case doorname.AuthRequest:
			return nginxCall(change(mapHeaders{"x-original-uri": path}, headers))
		case doorname.ExtAuthzWeb:
			r := envoyWebCall(headers)
			r.Path = extAuthzPrefix + path
			return r
		}
		return &Request{Door: door, Method: "GET", Path: path, Headers: mapHeaders(headers)}
	}
	check := func(r *Request, query string) *Request { r.Path += query; return r }
	context := func(r *Request, act string) *Request { r.Context = map[string]string{"act": act}; return r }
	for _, c := range []struct {
		name string
		call *Request
		want string
	}{
		{"nothing", get(doorname.ExtAuthz, "/", nil), ""},
		{"[params]", get(doorname.ExtAuthz, "/", map[string]string{"x-act": "param"}), "param"},
		{"a route over [params]", get(doorname.ExtAuthz, "/a", map[string]string{"x-act": "param"}), "route"},
		{"a variable over [params]", get(doorname.ExtAuthz, "/b", map[string]string{"x-act": "param"}), "b"},
		{"a blank variable is absent", get(doorname.ExtAuthz, "/%20", nil), ""},
		{"and overrides nothing", get(doorname.ExtAuthz, "/%20%09", map[string]string{"x-act": "param"}), "param"},
		{
			"the context over a route",
			context(get(doorname.ExtAuthz, "/a", nil), "context"),
			"context",
		},
		{
			"an empty context overrides nothing",
			context(get(doorname.ExtAuthz, "/a", nil), " "),
			"route",
		},
		{"a static argument over a route", check(get(doorname.AuthRequest, "/a", nil), "?act=static"), "static"},
		{"the first static argument", check(get(doorname.AuthRequest, "/a", nil), "?act=static&act=second"), "static"},
		{"an empty static argument overrides nothing", check(get(doorname.AuthRequest, "/a", nil), "?act=&act=second"), "route"},
		{"a static argument is decoded", check(get(doorname.AuthRequest, "/a", nil), "?%61ct=sta%74ic+one"), "static one"},
		{
			"a gateway's header over a static argument",
			check(get(doorname.AuthRequest, "/a", map[string]string{"x-koala-param-act": "gateway"}), "?act=static"),
			"gateway",
		},
		{
			"a gateway's header over [params]",
			get(doorname.AuthRequest, "/", map[string]string{"x-koala-param-act": "gateway", "x-act": "param"}),
			"gateway",
		},
		{
			"an empty gateway's header overrides nothing",
			check(get(doorname.AuthRequest, "/a", map[string]string{"x-koala-param-act": ""}), "?act=static"),
			"static",
		},
		{"ext-authz: the query is the client's", check(get(doorname.ExtAuthzWeb, "/a", nil), "?act=forged"), "route"},
		{"ext-authz: the gateway's header", get(doorname.ExtAuthzWeb, "/a", map[string]string{"x-koala-param-act": "gateway"}), "gateway"},
		{"extauthz: that header is the client's", get(doorname.ExtAuthz, "/a", map[string]string{"x-koala-param-act": "forged"}), "route"},
		{"middleware: that header is the client's", get(doorname.Middleware, "/a", map[string]string{"x-koala-param-act": "forged"}), "route"},
		{"koala: that header is no one's", get(doorname.Koala, "/a", map[string]string{"x-koala-param-act": "forged"}), ""},
		{"koala: its path is no route", get(doorname.Koala, "/a", nil), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p rules.Params
			if err := Params(set, c.call, &Options{}, &p); err != nil {
				t.Fatal(err)
			}
			if got, _ := p.Get("act"); got != c.want {
				t.Errorf("act = %q, want %q", got, c.want)
			}
		})
	}
}

func TestMissingHeaders(t *testing.T) {
	for _, c := range []struct {
		call *Request
		want []string
	}{
		{nginxCall(map[string]string{"x-original-method": "-"}), []string{"X-Original-Method"}},
		{nginxCall(map[string]string{"x-original-uri": "-"}), []string{"X-Original-URI"}},
		{nginxCall(map[string]string{"x-original-uri": "  "}), []string{"X-Original-URI"}},
		{nginxCall(map[string]string{"x-real-ip": "-"}), []string{"X-Real-IP"}},
		{nginxCall(map[string]string{"x-real-ip": "-", "x-forwarded-for": "192.0.2.66"}), []string{"X-Real-IP"}},
		{nginxCall(map[string]string{"x-real-ip": "unix:"}), []string{"X-Real-IP"}},
		{nginxCall(map[string]string{"x-real-ip": "192.0.2.66,198.51.100.7"}), []string{"X-Real-IP"}},
		{caddyCall(map[string]string{"x-forwarded-method": "-"}), []string{"X-Forwarded-Method"}},
		{caddyCall(map[string]string{"x-forwarded-uri": "-"}), []string{"X-Forwarded-Uri"}},
		{caddyCall(map[string]string{"x-forwarded-uri": "{uri}"}), []string{"X-Forwarded-Uri"}},
		{caddyCall(map[string]string{"x-forwarded-for": "-", "x-real-ip": "192.0.2.66"}), []string{"X-Forwarded-For"}},
		{caddyCall(map[string]string{"x-forwarded-for": "{remote}"}), []string{"X-Forwarded-For"}},
		{caddyCall(map[string]string{"x-forwarded-for": "192.0.2.66, unknown"}), []string{"X-Forwarded-For"}},
		{caddyCall(map[string]string{"x-forwarded-for": "192.0.2.66,"}), []string{"X-Forwarded-For"}},
		{envoyWebCall(map[string]string{"x-forwarded-for": "-"}), []string{"X-Forwarded-For"}},
		{
			&Request{Door: doorname.Accel, Headers: mapHeaders(nil)},
			[]string{"X-Original-Method", "X-Original-URI", "X-Real-IP"},
		},
		{
			&Request{Door: doorname.ForwardAuth},
			[]string{"X-Forwarded-Method", "X-Forwarded-Uri", "X-Forwarded-For"},
		},
	} {
		t.Run(fmt.Sprint(c.call.Door, c.call.Headers), func(t *testing.T) {
			refusal := wantRefusal(t, c.call, &Options{}, http.StatusForbidden)
			if diff := cmp.Diff(c.want, refusal.Missing); diff != "" {
				t.Errorf("missing headers (-want +got):\n%s", diff)
			}
			for _, name := range c.want {
				if !strings.Contains(refusal.Error(), name) {
					t.Errorf("the error %q does not name %s", refusal, name)
				}
			}
		})
	}
}

// A gateway that sets only one of X-Original-URL and X-Original-URI forwards the other
// from the client, so a check with both is refused unless they agree.
func TestConflictingPathsAreRefused(t *testing.T) {
	set := plain(t)
	for _, c := range []struct {
		uri, url string
		refused  bool
	}{
		{"/a?b", "https://shop.example/a?b", false},
		{"/a?b", "/a?b", false},
		{"/free", "https://shop.example/a?b", true},
		{"/a", "https://shop.example/a?b", true},
		{"/a%2F", "https://shop.example/a/", true},
		{"https://shop.example/a", "https://other.example/a", false}, // the host is not taken from either
	} {
		for _, door := range []string{doorname.AuthRequest, doorname.Accel} {
			r := nginxCall(map[string]string{"x-original-uri": c.uri, "x-original-url": c.url})
			r.Door = door
			err := Params(set, r, &Options{}, new(rules.Params))
			var refusal *Refusal
			if refused := errors.As(err, &refusal) && refusal.Status == 403; refused != c.refused {
				t.Errorf("%s: URI %s and URL %s: %v; want it refused: %v", door, c.uri, c.url, err, c.refused)
			}
		}
	}
}

func TestTrustedHops(t *testing.T) {
	middleware := func(list string) *Request {
		return &Request{
			Door: doorname.Middleware, Method: "GET", Path: "/", Peer: "10.0.0.1:5000",
			Headers: mapHeaders{"x-forwarded-for": list},
		}
	}
	for _, c := range []struct {
		name string
		call *Request
		hops int
		want string // "" for a refusal
	}{
		{"none, one element", caddyCall(map[string]string{"x-forwarded-for": "198.51.100.7"}), 0, "198.51.100.7"},
		{"none, a forged left end", caddyCall(map[string]string{"x-forwarded-for": "192.0.2.66,198.51.100.7"}), 0, "198.51.100.7"},
		{"one", caddyCall(map[string]string{"x-forwarded-for": "192.0.2.66, 198.51.100.7:81, 10.0.0.1"}), 1, "198.51.100.7"},
		{"two", envoyWebCall(map[string]string{"x-forwarded-for": "[2001:DB8::7]:81,10.0.0.2,10.0.0.1"}), 2, "2001:db8::7"},
		{"more than there are", caddyCall(map[string]string{"x-forwarded-for": "198.51.100.7"}), 1, ""},
		{"an empty element keeps its place", caddyCall(map[string]string{"x-forwarded-for": "192.0.2.66,,10.0.0.1"}), 1, ""},
		{"garbage to the left does no harm", caddyCall(map[string]string{"x-forwarded-for": "\x00%,;,,198.51.100.7"}), 0, "198.51.100.7"},
		{"auth-request has no list", nginxCall(map[string]string{"x-forwarded-for": "192.0.2.66"}), 3, "198.51.100.7"},
		{"middleware: the peer", middleware("192.0.2.66"), 0, "10.0.0.1"},
		{"middleware: behind one", middleware("192.0.2.66, 198.51.100.7"), 1, "198.51.100.7"},
		{"middleware: behind two", middleware("198.51.100.7, 10.0.0.2"), 2, "198.51.100.7"},
		{"middleware: behind more than there are", middleware("198.51.100.7"), 2, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := &Options{TrustedHops: c.hops}
			if c.want == "" {
				wantRefusal(t, c.call, o, http.StatusForbidden)
				return
			}
			wantParam(t, plain(t), c.call, o, "ip", c.want)
		})
	}
}

// Caddy and HAProxy pass on `post` as the client sent it.
func TestMethodsAreUpperCase(t *testing.T) {
	set := with(t, "q : query q", "POST /a : act=post\nGET /a : act=get")
	for _, c := range []struct{ sent, method, act string }{
		{"POST", "POST", "post"},
		{"post", "POST", "post"},
		{"PoSt", "POST", "post"},
		{"head", "HEAD", "get"},
		{"po\u017ft", "PO\u017fT", ""}, // a long s is no S
		{"\xffx-1_z", "\xffX-1_Z", ""},
	} {
		extAuthzWeb := envoyWebCall(nil)
		extAuthzWeb.Method = c.sent
		for _, r := range []*Request{
			nginxCall(map[string]string{"x-original-method": c.sent}),
			caddyCall(map[string]string{"x-forwarded-method": c.sent}),
			extAuthzWeb,
			{Door: doorname.ExtAuthz, Method: c.sent, Path: "/a", Host: "shop.example", Peer: "198.51.100.7:1"},
			{Door: doorname.Middleware, Method: c.sent, Path: "/a", Host: "shop.example", Peer: "198.51.100.7:1"},
		} {
			wantParam(t, set, r, &Options{}, "method", c.method)
			wantParam(t, set, r, &Options{}, "act", c.act)
		}
	}
}

func TestTargets(t *testing.T) {
	set := with(t, "q : query q", "* / : act=routed")
	for _, c := range []struct {
		name, method, target string
		path, act, q         string
	}{
		{"origin form", "GET", "/a?q=1", "/a", "routed", "1"},
		{"absolute form", "GET", "http://other.example/a/../b?q=1", "/b", "routed", "1"},
		{"absolute form without a path", "GET", "http://other.example?q=1", "/", "routed", "1"},
		{"asterisk form", "OPTIONS", "*", "*", "", ""},
		{"authority form", "CONNECT", "db.example:5432", "", "", ""},
		{"CONNECT with a path, as HTTP/2 has it", "CONNECT", "/socket", "/socket", "routed", ""},
		{"no first slash", "GET", "a/b", "/a/b", "routed", ""},
		{"a query alone", "GET", "?q=1", "/", "routed", "1"},
		{"two slashes are no authority", "GET", "//other.example/a", "/other.example/a", "routed", ""},
		{"an encoded number sign", "GET", "/a%23/../b?q=1", "/b", "routed", "1"},
		{"a query that looks like a path", "GET", "/a?/../q=%2e&q=/../b", "/a", "routed", "/../b"},
		{"no target", "", "", "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p rules.Params
			r := &Request{Door: doorname.ExtAuthz, Method: c.method, Path: c.target}
			if err := Params(set, r, &Options{}, &p); err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]string{"path": c.path, "act": c.act, "q": c.q} {
				if got, _ := p.Get(name); got != want {
					t.Errorf("%s = %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestMalformedRequest(t *testing.T) {
	for _, call := range []*Request{
		{Door: doorname.ExtAuthz, Method: "GET", Path: "/a%zz"},
		{Door: doorname.Middleware, Method: "GET", Path: "/a%00"},
		nginxCall(map[string]string{"x-original-uri": "/a%zz"}),
		caddyCall(map[string]string{"x-forwarded-uri": "/a%zz"}),
		nginxCall(map[string]string{"x-original-uri": "/a#zz"}),
		caddyCall(map[string]string{"x-forwarded-uri": "/a?#&uid=zz"}),
		{Door: doorname.ExtAuthz, Method: "GET", Path: "/zz/%2e%2E"},
		{Door: doorname.Middleware, Method: "GET", Path: "/zz/.%2e/b"},
		{Door: doorname.Middleware, Method: "GET", Path: "http://shop.example/zz/%2e"},
		nginxCall(map[string]string{"x-original-uri": "/zz/%2E./b"}),
		caddyCall(map[string]string{"x-forwarded-uri": "/zz/%2e/b"}),
	} {
		refusal := wantRefusal(t, call, &Options{}, http.StatusBadRequest)
		if strings.Contains(refusal.Error(), "zz") {
			t.Errorf("the error %q repeats what the client sent", refusal)
		}
	}
	kept := &Request{Door: doorname.ExtAuthz, Method: "GET", Path: "/a%zz/%61"}
	wantParam(t, plain(t), kept, &Options{KeepMalformed: true}, "path", "/a%25zz/a")
	keptWhole := &Request{Door: doorname.ExtAuthz, Method: "GET", Path: "/a#/../b"}
	wantParam(t, plain(t), keptWhole, &Options{KeepMalformed: true}, "path", "/b")
	query := &Request{Door: doorname.ExtAuthz, Method: "GET", Path: "/a?b=%zz%00"}
	wantParam(t, plain(t), query, &Options{}, "path", "/a")
}

func TestMissingHeadersTakePrecedenceOverMalformedPaths(t *testing.T) {
	call := nginxCall(map[string]string{"x-original-uri": "/a%zz", "x-real-ip": "-"})
	wantRefusal(t, call, &Options{}, http.StatusForbidden)
}

func TestParamsIsReset(t *testing.T) {
	var p rules.Params
	p.Set("left", "over")
	if err := Params(plain(t), &Request{Door: doorname.Koala}, &Options{}, &p); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"door": "koala"}, asMap(&p)); diff != "" {
		t.Errorf("parameters (-want +got):\n%s", diff)
	}
}

func wantParams(t *testing.T, set *rules.Set, r *Request, o *Options, want map[string]string) {
	t.Helper()
	var p rules.Params
	if err := Params(set, r, o, &p); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, asMap(&p)); diff != "" {
		t.Errorf("parameters (-want +got):\n%s", diff)
	}
	wantKept(t, set, r, o, &p)
}

// wantKept holds that a kept request has the same parameters.
func wantKept(t *testing.T, set *rules.Set, r *Request, o *Options, want *rules.Params) {
	t.Helper()
	var p rules.Params
	if err := Params(set, r.Keep(set), o, &p); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.List(), p.List(), cmp.AllowUnexported(rules.Param{})); diff != "" {
		t.Errorf("parameters of the kept request (-want +got):\n%s", diff)
	}
}

func wantParam(t *testing.T, set *rules.Set, r *Request, o *Options, name, want string) {
	t.Helper()
	var p rules.Params
	if err := Params(set, r, o, &p); err != nil {
		t.Fatal(err)
	}
	if got, _ := p.Get(name); got != want {
		t.Errorf("%s = %q, want %q", name, got, want)
	}
	wantKept(t, set, r, o, &p)
}

func wantRefusal(t *testing.T, r *Request, o *Options, status int) *Refusal {
	t.Helper()
	var p rules.Params
	err := Params(plain(t), r, o, &p)
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		t.Fatalf("Params gives %v and the error %v, want a refusal", p.List(), err)
	}
	if refusal.Status != status {
		t.Errorf("refused with %d, want %d: %v", refusal.Status, status, refusal)
	}
	return refusal
}
