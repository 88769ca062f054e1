package extauthz_test

import (
	"testing"

	"github.com/koalagate/koalagate/extauthz"
)

// TestRequestPartsReachTheRules checks that each part of a request is the value of its
// parameter, by a rule that denies it.
func TestRequestPartsReachTheRules(t *testing.T) {
	for name, test := range map[string]struct {
		params, routes, condition, check string
	}{
		"the door":                   {"", "", `door=extauthz`, `{}`},
		"the method":                 {"", "", `method=POST`, `{"request": {"http": {"method": "POST", "path": "/"}}}`},
		"the path without its query": {"", "", `path="/login"`, `{"request": {"http": {"method": "GET", "path": "/login?q=1"}}}`},
		"the path's field, not the pseudo header": {
			"", "", `path="/login"`,
			`{"request": {"http": {"path": "/login", "headers": {":path": "/other"}}}}`,
		},
		"the path, resolved":        {"", "", `path="/admin/x"`, `{"request": {"http": {"path": "/norl/../admin/%78"}}}`},
		"the host without its port": {"", "", `host=shop.example`, `{"request": {"http": {"path": "/", "host": "Shop.Example:8443"}}}`},
		"the scheme":                {"", "", `scheme=https`, `{"request": {"http": {"path": "/", "scheme": "https"}}}`},
		"the peer":                  {"", "", `ip=203.0.113.0/24`, `{"source": {"address": {"socket_address": {"address": "203.0.113.9", "port_value": 4711}}}}`},
		"the peer on IPv6":          {"", "", `ip=2001:db8::/32`, `{"source": {"address": {"socket_address": {"address": "2001:db8::7"}}}}`},
		"the peer, whatever X-Forwarded-For says": {
			"", "", `ip=203.0.113.9`,
			`{"source": {"address": {"socket_address": {"address": "203.0.113.9"}}}, "request": {"http": {"path": "/", "headers": {"x-forwarded-for": "10.0.0.1"}}}}`,
		},
		"a header": {"uid : header X-User-Id", "", `uid=ann`, `{"request": {"http": {"path": "/", "headers": {"x-user-id": "ann"}}}}`},
		"a header sent twice": {
			"uid : header X-User-Id", "", `uid="a,b"`,
			`{"request": {"http": {"path": "/", "header_map": {"headers": [{"key": "x-user-id", "raw_value": "YQ=="}, {"key": "x-user-id", "raw_value": "Yg=="}]}}}}`,
		},
		"a raw cookie": {
			"uid : cookie uid", "", `uid=ann`,
			`{"request": {"http": {"path": "/", "header_map": {"headers": [{"key": "cookie", "raw_value": "YT0xOyB1aWQ9YW5u"}]}}}}`,
		},
		"a query argument":   {"q : query q", "", `q="a b"`, `{"request": {"http": {"path": "/s?q=a%20b"}}}`},
		"context_extensions": {"", "", `act=login`, `{"context_extensions": {"act": "login"}}`},
		"context_extensions over a route": {
			"", "GET / : act=route", `act=login`,
			`{"context_extensions": {"act": "login"}, "request": {"http": {"method": "GET", "path": "/"}}}`,
		},
		"a route's constant and variable": {
			"", "GET /v/{id} : act=view", `act=view; id=42`,
			`{"request": {"http": {"method": "GET", "path": "/v/42?x=1"}}}`,
		},
		"dynamic metadata": {
			"sub : metadata envoy.filters.http.jwt_authn payload.sub", "", `sub=ann`,
			`{"metadata_context": {"filter_metadata": {"envoy.filters.http.jwt_authn": {"payload": {"sub": "ann"}}}}}`,
		},
		"a route's metadata": {
			"tier : metadata my.route tier", "", `tier=gold`,
			`{"route_metadata_context": {"filter_metadata": {"my.route": {"tier": "gold"}}}}`,
		},
		"a number in metadata": {
			"level : metadata jwt level", "", `level=1-5`,
			`{"metadata_context": {"filter_metadata": {"jwt": {"level": 3}}}}`,
		},
		"the principal":   {"who : principal", "", `who="spiffe://lab/cli"`, `{"source": {"principal": "spiffe://lab/cli"}}`},
		"the server name": {"name : sni", "", `name=srv.lab`, `{"tls_session": {"sni": "srv.lab"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			text := "[rules]\nrule : [direct] [" + test.condition + "] [time=1; count=0;] [result=2; return=7]\n" +
				"[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10}\n" +
				"[params]\n" + test.params + "\n[routes]\n" + test.routes + "\n"
			// One of the checks has no source.
			door := open(t, text, func(o *extauthz.Options) { o.Mapping.KeepMissingAddress = true })
			reply := ask(t, door, request(t, `{"attributes": `+test.check+`}`))
			if got := reply.DynamicMetadata.Fields["rule"].GetNumberValue(); got != 7 {
				t.Errorf("rule %v decided; want 7, which requires %s; the reply is %v", got, test.condition, reply)
			}
			if name == "the door" {
				return // every check comes in by it
			}
			other := ask(t, door, request(t, `{"attributes": {"request": {"http": {"method": "PUT", "path": "/else", "host": "else", "scheme": "http"}}}}`))
			if other.GetOkResponse() == nil {
				t.Errorf("a check without it was denied too: %v", other)
			}
		})
	}
}

func TestClientsCannotSetParametersByHeadersOrQuery(t *testing.T) {
	door := open(t, `
[params]
act : gateway
[rules]
rule : [direct] [act=+] [time=1; count=0;] [result=2; return=1]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`, nil)
	for name, check := range map[string]string{
		"X-Koala-Param header": `{"path": "/", "headers": {"x-koala-param-act": "admin"}}`,
		"query":                `{"path": "/?act=admin"}`,
	} {
		reply := ask(t, door, request(t, `{"attributes": {"request": {"http": `+check+`}}}`))
		if reply.GetOkResponse() == nil {
			t.Errorf("%s: the client's act reached the rules: %v", name, reply)
		}
	}
}

func TestBothHeaderFormsGiveTheSameParameters(t *testing.T) {
	const text = `
[params]
uid : header X-User-Id else cookie uid
[rules]
rule : [count] [uid=+] [time=90; count=1;] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`
	door := open(t, text, nil)
	asMap := request(t, `{"attributes": {"request": {"http": {"path": "/", "headers": {"x-user-id": "ann"}}}}}`)
	asList := request(t, `{"attributes": {"request": {"http": {"path": "/", "header_map": {"headers": [{"key": "x-user-id", "raw_value": "YW5u"}]}}}}}`)
	if reply := ask(t, door, asMap); reply.GetOkResponse() == nil {
		t.Fatalf("the first was denied: %v", reply)
	}
	if reply := ask(t, door, asList); reply.GetDeniedResponse().GetStatus().GetCode() != 429 {
		t.Errorf("the second, in the other form, was counted elsewhere: %v", reply)
	}
}
