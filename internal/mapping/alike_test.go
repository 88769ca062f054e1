package mapping

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/rules"
)

// atEveryDoor returns one client request in the form of each door that has an original
// request.
func atEveryDoor(method, target, host, peer string, headers http.Header) []*Request {
	with := func(more ...string) HTTPHeaders {
		all := headers.Clone()
		for i := 0; i < len(more); i += 2 {
			all.Set(more[i], more[i+1])
		}
		return HTTPHeaders(all)
	}
	overHTTP := with("X-Forwarded-For", "192.0.2.66, "+peer, "X-Forwarded-Proto", "https")
	if cookies := headers["Cookie"]; len(cookies) > 0 {
		overHTTP["Cookie"] = []string{strings.Join(cookies, ",")} // as Envoy joins them
	}
	asked := with("X-Original-Method", method, "X-Original-URI", target, "X-Forwarded-Host", host, "X-Forwarded-Proto", "https", "X-Real-IP", peer)
	return []*Request{
		{Door: doorname.ExtAuthz, Method: method, Path: target, Host: host, Scheme: "https", Peer: peer, Headers: with()},
		{Door: doorname.Middleware, Method: method, Path: target, Host: host, Scheme: "https", Peer: peer, Headers: with()},
		{Door: doorname.ExtAuthzWeb, Method: method, Path: extAuthzPrefix + target, Host: host, Headers: overHTTP},
		{Door: doorname.AuthRequest, Method: "GET", Path: "/v1/auth-request", Headers: asked},
		{Door: doorname.Accel, Method: method, Path: "/v1/accel", Headers: asked},
		{Door: doorname.ForwardAuth, Method: "GET", Path: "/v1/forward-auth", Headers: with("X-Forwarded-Method", method, "X-Forwarded-Uri", target,
			"X-Forwarded-Host", host, "X-Forwarded-Proto", "https", "X-Forwarded-For", "192.0.2.66, "+peer)},
	}
}

// FuzzDoorsAreAlike checks that all doors make the same parameters of the same request,
// or all refuse it. The middleware also refuses paths that net/http reads differently.
func FuzzDoorsAreAlike(f *testing.F) {
	f.Add("GET", "/v/7?q=1&q=2", "Shop.Example:443", "198.51.100.7", "ann", "1; uid=x", "y; a=b")
	f.Add("POST", "/f/%2e%2e//a%2Fb/?q=%zz&q=a+b", "[2001:db8::1]:80", "[2001:db8::7]:4711", "a,b", "garbage", `q`)
	f.Add("HEAD", "/a%zz", "shop.example.", "::ffff:198.51.100.7", " ", "; \xa0uid=1", "\xff; uid=2")
	f.Add("OPTIONS", "/f/#/../v/1", "x", "fe80::1%eth0", "\xff", "", "=")
	set := with(f, "uid : header X-User-Id\nsid : cookie uid\nq : query q hashed\nh : header Host\nc : header Cookie\nnet : client-ip /24 /64",
		"GET /v/{id} : act=view\n* /f/{rest...} : act=file")
	f.Fuzz(func(t *testing.T, method, target, host, peer, user, cookies, more string) {
		for _, text := range []string{method, target, host, peer, user, cookies, more} {
			if strings.ContainsAny(text, "{}\x00\r\n") || strings.ContainsAny(cookies+more, `,"`) || strings.Contains(host+peer, ",") {
				return // a placeholder of Caddy's, what no header holds, what Envoy's joining hides and who takes quotes off, or several hosts or peers
			}
		}
		if _, ok := parseAddress(peer); !ok || isBlank(method) || isBlank(host) || method == http.MethodConnect || !strings.HasPrefix(target, "/") {
			return
		}
		headers := http.Header{"X-User-Id": {user}, "Cookie": {"a=" + cookies, "uid=" + more}} // a comma ends a cookie only before another
		var first map[string]string
		for i, call := range atEveryDoor(method, target, host, peer, headers) {
			var p rules.Params
			err := Params(set, call, &Options{}, &p)
			if call.Door == doorname.Middleware && err != nil && strings.Contains(err.Error(), "encoded slash") {
				continue // see original.checkProgram
			}
			got := asMap(&p)
			delete(got, "door")
			if err != nil {
				got = map[string]string{"refused": err.Error()}
			}
			if i == 0 {
				first = got
			} else if diff := cmp.Diff(first, got); diff != "" {
				t.Fatalf("%s %s: %s and %s differ:\n%s", method, target, doorname.ExtAuthz, call.Door, diff)
			}
		}
	})
}
