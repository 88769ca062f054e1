package mapping

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/rules"
)

func TestParseAddress(t *testing.T) {
	for _, c := range []struct{ written, want string }{
		{"203.0.113.9", "203.0.113.9"},
		{"203.0.113.9:443", "203.0.113.9"},
		{"  203.0.113.9\t", "203.0.113.9"},
		{"2001:DB8::0:9", "2001:db8::9"},
		{"[2001:db8::9]", "2001:db8::9"},
		{"[2001:db8::9]:443", "2001:db8::9"},
		{"fe80::1%eth0", "fe80::1"},
		{"[fe80::1%25eth0]:443", "fe80::1"},
		{"::ffff:203.0.113.9", "203.0.113.9"},
		{"[::ffff:cb00:7109]:1", "203.0.113.9"},
		{"::", "::"},

		{"", ""},
		{"unknown", ""},
		{"_hidden", ""},
		{"unix:", ""},
		{"@", ""},
		{"/run/app.sock", ""},
		{"203.0.113", ""},
		{"203.0.113.256", ""},
		{"203.0.113.009", ""},
		{"203.0.113.9:", ""},
		{"203.0.113.9:http", ""},
		{"203.0.113.9:123456", ""},
		{"203.0.113.9/24", ""},
		{"203.0.113.9, 10.0.0.1", ""},
		{"[203.0.113.9]:80", ""},
		{"[2001:db8::9", ""},
		{"[2001:db8::9]443", ""},
		{"[]:80", ""},
		{"2001:db8::9]:80", ""},
		{"203.0.113.9%eth0", ""},
		{"203.0.113.9\x00", ""},
	} {
		got := ""
		if address, ok := parseAddress(c.written); ok {
			got = addressText(address, c.written)
		}
		if got != c.want {
			t.Errorf("the address of %q is %q, want %q", c.written, got, c.want)
		}
	}
}

func TestNetworkText(t *testing.T) {
	for _, c := range []struct {
		address string
		v4, v6  int
		want    string
	}{
		{"203.0.113.9", 24, 64, "203.0.113.0"},
		{"203.0.113.9", 32, 128, "203.0.113.9"},
		{"203.0.113.9", 0, 0, "0.0.0.0"},
		{"2001:db8:1:2:3::9", 24, 64, "2001:db8:1:2::"},
		{"2001:db8::9", 24, 128, "2001:db8::9"},
		{"2001:db8::9", 24, 0, "::"},
	} {
		s := &rules.ParamSource{Kind: rules.FromClientIP, V4: c.v4, V6: c.v6}
		if got := networkText(netip.MustParseAddr(c.address), s); got != c.want {
			t.Errorf("the network of %s, /%d /%d, is %q, want %q", c.address, c.v4, c.v6, got, c.want)
		}
	}
}

func TestForwardedElement(t *testing.T) {
	for _, c := range []struct {
		list string
		hops int
		want string
	}{
		{"203.0.113.9", 0, "203.0.113.9"},
		{"9.9.9.9, 203.0.113.9", 0, "203.0.113.9"},
		{"9.9.9.9,203.0.113.9,10.0.0.1", 1, "203.0.113.9"},
		{"9.9.9.9 , 203.0.113.9 , 10.0.0.2,10.0.0.1", 2, "203.0.113.9"},
		{"203.0.113.9, 10.0.0.1", 1, "203.0.113.9"},
		{"203.0.113.9", 1, ""},
		{"203.0.113.9,10.0.0.1", 7, ""},
		{"203.0.113.9,", 0, ""},
		{"203.0.113.9,,10.0.0.1", 1, ""},
		{",203.0.113.9", 0, "203.0.113.9"},
		{"203.0.113.9", -1, "203.0.113.9"},
		{"", 0, ""},
		{",", 1, ""},
	} {
		if got := forwardedElement(c.list, c.hops); got != c.want {
			t.Errorf("forwardedElement(%q, %d) = %q, want %q", c.list, c.hops, got, c.want)
		}
	}
}

func TestCanonicalHost(t *testing.T) {
	for written, want := range map[string]string{
		"Shop.Example":         "shop.example",
		"Shop.Example:8443":    "shop.example",
		"shop.example.":        "shop.example",
		"shop.example.:80":     "shop.example",
		"203.0.113.9:80":       "203.0.113.9",
		"[2001:DB8::1]":        "2001:db8::1",
		"[2001:DB8::1]:8443":   "2001:db8::1",
		"2001:DB8::1":          "2001:db8::1",
		"\xffShop\xfe.Example": "\xffshop\xfe.example",
		"ÄRGER.example":        "Ärger.example",
		":80":                  "",
		"":                     "",
	} {
		if got := canonicalHost(written); got != want {
			t.Errorf("canonicalHost(%q) = %q, want %q", written, got, want)
		}
	}
}

func FuzzForwardedFor(f *testing.F) {
	for _, s := range []string{"1.2.3.4", "1.2.3.4, [::1]:80", ",,", "a,::ffff:1.2.3.4", "fe80::1%1,"} {
		for hops := range 3 {
			f.Add(s, hops)
		}
	}
	f.Fuzz(func(t *testing.T, list string, hops int) {
		hops = min(max(hops, 0), 8)
		element := forwardedElement(list, hops)
		// Elements that a client puts before the list change nothing.
		if forged := forwardedElement("9.9.9.9,"+list, hops); element != "" && forged != element {
			t.Fatalf("forwardedElement(%q, %d) is %q, behind a forged element %q", list, hops, element, forged)
		}
		if elements := strings.Split(list, ","); hops < len(elements) {
			if want := trim(elements[len(elements)-1-hops]); element != want {
				t.Fatalf("forwardedElement(%q, %d) = %q, want %q", list, hops, element, want)
			}
		}
		address, ok := parseAddress(element)
		if !ok {
			return
		}
		text := addressText(address, element)
		if again, err := netip.ParseAddr(text); err != nil || again.String() != text || again.Is4In6() || again.Zone() != "" {
			t.Fatalf("%q becomes %q, which is not canonical", element, text)
		}
	})
}

func TestMissingAddress(t *testing.T) {
	const (
		byIP      = "rule : [count] [ip=+] [time=60; count=1] [result=1; return=1]"
		byUser    = "rule : [count] [uid=+] [time=60; count=1] [result=1; return=1]"
		byPath    = "rule : [count] [path=+] [time=60; count=1] [result=1; return=1]"
		byNetwork = "rule : [count] [net=+] [time=60; count=1] [result=1; return=1]"
	)
	for _, c := range []struct {
		rule    string
		headers mapHeaders
		context map[string]string
		refused bool
	}{
		{rule: byIP, refused: true},
		{rule: byIP, context: map[string]string{"ip": "198.51.100.7"}},
		{rule: byUser, refused: true},
		{rule: byUser, headers: mapHeaders{"x-user-id": "ann"}},
		{rule: byUser, context: map[string]string{"uid": "ann"}},
		{rule: byNetwork, refused: true},
		{rule: byNetwork, headers: mapHeaders{"x-user-id": "ann"}, refused: true},
		{rule: byPath},
	} {
		set := parse(t, "[params]\nuid : header X-User-Id else client-ip\nnet : client-ip /24 /64\n[rules]\n"+c.rule+
			"\n[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":1}\n")
		for _, door := range []string{doorname.ExtAuthz, doorname.Middleware} {
			for _, peer := range []string{"", "@", "@app", "/run/app.sock", "unix:/run/app.sock", "localhost:80", "198.51.100.7:x"} {
				var p rules.Params
				r := &Request{Door: door, Method: "GET", Path: "/", Peer: peer, Headers: c.headers, Context: c.context}
				var refusal *Refusal
				refused := errors.As(Params(set, r, &Options{}, &p), &refusal) && refusal.NoAddress && refusal.Status == http.StatusBadRequest
				if refused != c.refused {
					t.Errorf("%s with the peer %q at %s: refused %v, want %v", c.rule, peer, door, refused, c.refused)
				}
				if err := Params(set, r, &Options{KeepMissingAddress: true}, &p); err != nil {
					t.Errorf("kept, and yet refused: %v", err)
				}
			}
		}
	}
	for _, r := range []*Request{{Door: doorname.RateLimit, Domain: "public"}, {Door: doorname.Koala}} {
		var p rules.Params
		if err := Params(parse(t, "[rules]\n"+byIP+"\n[result]\n0 : {}\n1 : {}\n"), r, &Options{}, &p); err != nil {
			t.Errorf("%s has no address of its own: %v", r.Door, err)
		}
	}
}
