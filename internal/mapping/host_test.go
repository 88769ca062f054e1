package mapping

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/rules"
)

var oddHosts = []string{
	"name:80:80", "a b", "shop .example", "shop..example", ".shop.example", "shop.example..", ".", "..", ":80", ":", "user@shop.example",
	"user:secret@shop.example", "shop.example\x00", "shop.example\r", "\nshop.example", "\u00a0shop.example", "shop.example/a", "shop.example?a",
	"shop.example#a", `shop\.example`, "shop.example:80a", "shop.example:+80", "shop.example:-1", "shop.example:999999", "shop%2eexample",
	"*.example", "{http.request.host}", "shop.example;a", "ärger.example", "\xff", "[shop.example]", "[::1", "::1]", "[::1]80", "[::1]:x",
	"[127.0.0.1]", "[fe80::1%25eth0]", "[]", "1::2::3", "\"shop.example\"", "http://shop.example", "shop.example:80:",
}

func TestIsHost(t *testing.T) {
	for _, host := range []string{
		"", "shop.example", "Shop.Example:8443", "shop.example.", "shop.example.:80", "shop.example:", "localhost", "a_b-c", "xn--rger-koa.example",
		"203.0.113.9", "203.0.113.9:80", "[2001:DB8::1]", "[::1]:8443", "2001:db8::1", " shop.example\t", "[::ffff:1.2.3.4]:1",
	} {
		if !isHost(host) {
			t.Errorf("%q is not accepted as a host", host)
		}
	}
	for _, host := range oddHosts {
		if isHost(host) {
			t.Errorf("%q is accepted as a host", host)
		}
	}
}

// hostCalls returns a call with a host at each door that derives one.
func hostCalls(target, host string) []*Request {
	calls := []*Request{
		{Door: doorname.ExtAuthz, Method: "GET", Path: target, Host: host},
		{Door: doorname.Middleware, Method: "GET", Path: target, Host: host, Peer: "198.51.100.7:1"},
		{Door: doorname.ExtAuthzWeb, Method: "GET", Path: extAuthzPrefix + target, Host: host, Headers: mapHeaders{"x-forwarded-for": "198.51.100.7"}},
		nginxCall(map[string]string{"x-original-uri": target, "x-forwarded-host": host}),
		caddyCall(map[string]string{"x-forwarded-uri": target, "x-forwarded-host": host}),
		nginxCall(map[string]string{"x-original-uri": target, "x-forwarded-host": host}),
	}
	calls[5].Door = doorname.Accel
	return calls
}

func TestMalformedHostIsRefusedAtEveryDoor(t *testing.T) {
	for _, host := range oddHosts {
		for _, call := range hostCalls("/a", host) {
			if call.Door == doorname.ForwardAuth && isPlaceholder(host) {
				continue // Caddy has no value for it
			}
			refusal := wantRefusal(t, call, &Options{}, http.StatusBadRequest)
			if strings.Contains(refusal.Error(), "shop") {
				t.Errorf("the error %q repeats what the client sent", refusal)
			}
			wantParam(t, plain(t), call, &Options{KeepMalformed: true}, "path", "/a")
		}
	}
}

func TestTargetAndHeaderMustNameOneHost(t *testing.T) {
	for _, c := range []struct {
		target, host string
		ok           bool
	}{
		{"http://shop.example/a", "shop.example", true},
		{"http://SHOP.example.:80/a", "shop.example:8080", true},
		{"https://[::1]:80/a", "[::1]", true},
		{"http://other.example/a", "shop.example", false},
		{"http://shop.example@other.example/a", "shop.example", false},
		{"http://user@shop.example/a", "shop.example", false},
		{`http://shop.example\@other.example/a`, "shop.example", false},
		{"http://shop.example:80:80/a", "shop.example", false},
		{"http:///a", "shop.example", false},
		{"ws://other.example?a", "shop.example", false},
	} {
		for _, call := range hostCalls(c.target, c.host) {
			if call.Door == doorname.ExtAuthzWeb {
				continue // the target follows a prefix, so that it has no absolute form
			}
			if !c.ok {
				wantRefusal(t, call, &Options{}, http.StatusBadRequest)
				wantParam(t, plain(t), call, &Options{KeepMalformed: true}, "host", canonicalHost(c.host))
				continue
			}
			wantParam(t, plain(t), call, &Options{}, "host", canonicalHost(c.host))
		}
	}
}

func TestHostOfTheTarget(t *testing.T) {
	wantParam(t, plain(t), &Request{Door: doorname.ExtAuthz, Method: "GET", Path: "http://Shop.Example:80/a"}, &Options{}, "host", "shop.example")
	own := nginxCall(map[string]string{"x-original-uri": "http://shop.example/a", "x-forwarded-host": ""})
	wantParam(t, plain(t), own, &Options{}, "host", "koala")
	wantParam(t, plain(t), &Request{Door: doorname.ExtAuthz, Method: "CONNECT", Path: "db.example:5432", Host: "db.example:5432"}, &Options{}, "host", "db.example")
	for _, target := range []string{"db.example:5432/api/comments", "user@db.example:5432", "other.example:5432"} {
		wantRefusal(t, &Request{Door: doorname.ExtAuthz, Method: "CONNECT", Path: target, Host: "db.example:5432"}, &Options{}, http.StatusBadRequest)
	}
}

// Whatever is accepted reads the same to net/http's reader of addresses.
func FuzzIsHost(f *testing.F) {
	for _, host := range append(oddHosts, "shop.example:80", "[::1]:80", "a.b.") {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, written string) {
		if !isHost(written) {
			return
		}
		host := canonicalHost(written)
		if host == "" {
			if trimBlanks(written) != "" {
				t.Fatalf("%q is accepted and has no host", written)
			}
			return
		}
		if _, err := netip.ParseAddr(host); err != nil && (!isName(host) || strings.HasSuffix(host, ".")) {
			t.Fatalf("%q is accepted and has the host %q", written, host)
		}
		if canonicalHost(host) != host || !isHost(host) {
			t.Fatalf("the host %q of %q is not canonical", host, written)
		}
		var p rules.Params
		if err := Params(plain(t), &Request{Door: doorname.ExtAuthz, Method: "GET", Path: "/", Host: written}, &Options{}, &p); err != nil {
			t.Fatalf("%q is refused: %v", written, err)
		}
	})
}
