package mapping

import (
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/rules"
)

func TestSources(t *testing.T) {
	envoy := func(headers mapHeaders) *Request {
		return &Request{
			Door: doorname.ExtAuthz, Method: "GET", Path: "/?q=a+b&empty=&e=%zz", Peer: "203.0.113.9", Headers: headers,
			Principal: "spiffe://mesh/app", SNI: "Shop.Example.",
			Metadata: func(namespace, path string) (string, bool) {
				if namespace == "envoy.filters.http.jwt_authn" && path == "payload.sub" {
					return "ann", true
				}
				return "", false
			},
		}
	}
	plainCall := func() *Request { return envoy(nil) }
	limit := &Request{Door: doorname.RateLimit, Domain: "edge", Entries: []Entry{{"user", "ann"}, {"user", "eve"}, {"empty", ""}}}
	koala := &Request{
		Door: doorname.Koala, Path: "/rule/browse?user=x", Peer: "127.0.0.1:5000",
		Headers: mapHeaders{"x-user": "ann", "x-koala-param-v": "forged"},
		Args:    []Entry{{"user", "ann"}, {"user", "eve"}},
	}

	// The first half of the SHA-256 of "ann".
	const annHashed = "49915e0d7d4b402e3017d010bc1c0e83"
	for _, c := range []struct {
		name, source string
		call         *Request
		want         string
	}{
		{"header", "header X-User", envoy(mapHeaders{"x-user": "ann"}), "ann"},
		{"header as it arrived", "header X-User", envoy(mapHeaders{"x-user": " ann "}), " ann "},
		{"header, not UTF-8 and a NUL", "header X-User", envoy(mapHeaders{"x-user": "\xff\x00"}), "\xff\x00"},
		{"header, absent", "header X-User", plainCall(), ""},
		{"header, blank", "header X-User else sni", envoy(mapHeaders{"x-user": "\t "}), "shop.example"},
		{"header Host is the request's own", "header Host", nginxCall(nil), "shop.example"},
		{"cookie", "cookie uid", envoy(mapHeaders{"cookie": "a=b; uid=ann"}), "ann"},
		{"cookie behind another Cookie header", "cookie uid", &Request{
			Door: doorname.ExtAuthzWeb, Path: "/v1/ext-authz/",
			Headers: HTTPHeaders{"Cookie": {"a=b,uid=ann"}, "X-Forwarded-For": {"198.51.100.7"}},
		}, "ann"},
		{"cookie, empty", "cookie uid else sni", envoy(mapHeaders{"cookie": "uid="}), "shop.example"},
		{"query", "query q", plainCall(), "a b"},
		{"query, a broken escape", "query e", plainCall(), "%zz"},
		{"query, empty", "query empty else sni", plainCall(), "shop.example"},
		{"metadata", "metadata envoy.filters.http.jwt_authn payload.sub", plainCall(), "ann"},
		{"metadata, absent", "metadata envoy.filters.http.jwt_authn payload.iss", plainCall(), ""},
		{"metadata where there is none", "metadata a b", nginxCall(nil), ""},
		{"principal", "principal", plainCall(), "spiffe://mesh/app"},
		{"sni", "sni", plainCall(), "shop.example"},
		{"descriptor, the first", "descriptor user", limit, "ann"},
		{"descriptor, empty", "descriptor empty else descriptor user", limit, "ann"},
		{"descriptor where there is none", "descriptor user", plainCall(), ""},
		{"header at the rate limit service", "header X-User", limit, ""},
		{"cookie at the rate limit service", "cookie uid", limit, ""},
		{"client-ip at the rate limit service", "client-ip", limit, ""},
		{"client-ip", "client-ip", plainCall(), "203.0.113.9"},
		{"client-ip, a network", "client-ip /16 /48", plainCall(), "203.0.0.0"},
		{"client-ip of nginx", "client-ip", nginxCall(nil), "198.51.100.7"},
		{"client-ip is not the application's", "client-ip else query user", koala, "ann"},
		{"query at koala, the first", "query user", koala, "ann"},
		{"header at koala", "header X-User", koala, "ann"},
		{"gateway at koala", "gateway", koala, ""},
		{"gateway", "gateway", nginxCall(map[string]string{"x-koala-param-v": "ann"}), "ann"},
		{"gateway, hashed", "gateway hashed", nginxCall(map[string]string{"x-koala-param-v": "ann"}), annHashed},
		{"hashed", "header X-User hashed", envoy(mapHeaders{"x-user": "ann"}), annHashed},
		{"hashed without the blanks around it", "header X-User hashed", envoy(mapHeaders{"x-user": " ann\t"}), annHashed},
		{"hashed belongs to its source", "header X-User hashed else sni", plainCall(), "shop.example"},
		{"lower", "header X-User lower", envoy(mapHeaders{"x-user": "Ann ÄÉ \u212a"}), "ann ÄÉ \u212a"},
		{"lower, then hashed", "header X-User lower hashed", envoy(mapHeaders{"x-user": " ANN"}), annHashed},
		{"lower belongs to its source", "cookie uid lower else header X-User", envoy(mapHeaders{"x-user": "Ann"}), "Ann"},
		{"gateway, lower", "gateway lower", nginxCall(map[string]string{"x-koala-param-v": "Ann"}), "ann"},
		{"an argument with the name of a modifier", "query lower", &Request{Door: doorname.Koala, Path: "/rule/browse", Args: []Entry{{"lower", "Ann"}}}, "Ann"},
		{"hashed nothing is absent", "header X-User hashed", envoy(mapHeaders{"x-user": " "}), ""},
		{"a placeholder", "header X-User else query q", caddyCall(map[string]string{"x-user": "{http.auth.user.id}"}), "1"},
		{"a placeholder among blanks", "header X-User else query q", caddyCall(map[string]string{"x-user": " {user} "}), "1"},
		{"a placeholder and more", "header X-User else query q", caddyCall(map[string]string{"x-user": "{a}{b}"}), "{a}{b}"},
		{"a placeholder of the gateway", "gateway else query q", caddyCall(map[string]string{"x-koala-param-v": "{user}"}), "1"},
		{"a placeholder in a cookie", "cookie uid else query q", caddyCall(map[string]string{"cookie": "uid={x}"}), "1"},
		{"braces at other doors", "header X-User", nginxCall(map[string]string{"x-user": "{user}"}), "{user}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantParam(t, with(t, "v : "+c.source, ""), c.call, &Options{}, "v", c.want)
		})
	}
}

// A client that sends the address of another as its user must not share its counter.
func TestLaterSourcesAreMarked(t *testing.T) {
	set := with(t, "uid : header X-User-Id else gateway else cookie uid else client-ip\nnet : client-ip /24 /64 else sni", "")
	for _, c := range []struct {
		headers mapHeaders
		args    string
		want    string
	}{
		{mapHeaders{"x-user-id": "198.51.100.7"}, "", "uid"},
		{mapHeaders{"cookie": "uid=198.51.100.7"}, "", "uid@cookie"},
		{mapHeaders{}, "", "uid@client-ip"},
		{mapHeaders{"x-koala-param-uid": "ann"}, "", "uid@gateway"},
		{mapHeaders{}, "?uid=ann", "uid"},
		{mapHeaders{"cookie": "uid=" + strings.Repeat("x", DefaultMaxValue+1)}, "", "uid@cookie"},
	} {
		headers := map[string]string{}
		for name, value := range c.headers {
			headers[name] = value
		}
		call := nginxCall(headers)
		call.Path += c.args
		var p rules.Params
		if err := Params(set, call, &Options{}, &p); err != nil {
			t.Fatal(err)
		}
		if got := p.FullName("uid"); got != c.want {
			t.Errorf("%v: the parameter is %s, want %s", c.headers, got, c.want)
		}
		if got := p.FullName("net"); got != "net" {
			t.Errorf("the value of the first source is %s", got)
		}
	}
	var p rules.Params
	if err := Params(set, &Request{Door: doorname.Koala, Args: []Entry{{"uid@client-ip", "198.51.100.7"}}}, &Options{}, &p); err != nil || p.FullName("uid") != "uid@client-ip" {
		t.Errorf("koala: %v, %v", p.List(), err)
	}
}

// TestTablesAreReadLast checks that a table finds its row by a parameter from any source,
// and replaces no value that a route or the gateway sets.
func TestTablesAreReadLast(t *testing.T) {
	text := `[tables]
plans : plans.csv
[params]
tier   : table plans.tier by tenant else header X-Tier else "free"
area   : header X-Area else table plans.area by tier
tenant : header X-Tenant
secret : table plans.tier by tenant hashed
[routes]
GET /gold : tier=route
GET /acme : tenant=acme
[rules]
rule : [count] [tier=+; area=+; tenant=+; secret=+] [time=60; count=5] [result=2; return=1]
[result]
0 : {}
1 : {}
2 : {"Err_no":1}
`
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{OpenTable: func(_, path string) (*rules.Table, error) {
		return rules.ParseTable(path, strings.NewReader("key,tier,area\nacme,gold,\ngold,,east\nfree,,south\n"))
	}})
	if set == nil {
		t.Fatal(findings)
	}
	for _, c := range []struct {
		name, path string
		headers    mapHeaders
		want       string
	}{
		{"a row", "/", mapHeaders{"x-tenant": " acme "}, "tier=gold area@table=east"},
		{"no row", "/", mapHeaders{"x-tenant": "bob"}, "tier@constant=free area@table=south"},
		{"no row, a later header", "/", mapHeaders{"x-tenant": "bob", "x-tier": "gold"}, "tier@header=gold area@table=east"},
		{"no parameter", "/", mapHeaders{}, "tier@constant=free area@table=south"},
		{"an earlier header", "/", mapHeaders{"x-tenant": "acme", "x-area": "west"}, "tier=gold area=west"},
		{"the parameter of a route", "/acme", mapHeaders{}, "tier=gold area@table=east"},
		{"the value of a route", "/gold", mapHeaders{"x-tenant": "acme"}, "tier=route"},
	} {
		p := new(rules.Params)
		call := &Request{Door: doorname.ExtAuthz, Method: "GET", Path: c.path, Peer: "203.0.113.9", Headers: c.headers}
		if err := Params(set, call, &Options{}, p); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, name := range []string{"tier", "area"} {
			if value, ok := p.Get(name); ok {
				got = append(got, p.FullName(name)+"="+value)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		if secret, _ := p.Get("secret"); secret != "" && len(secret) != 32 {
			t.Errorf("%s: the value of the table is not hashed: %q", c.name, secret)
		}
	}
}
