package browser

import (
	"net/http"
	"testing"
)

func TestAllowsHost(t *testing.T) {
	names := []string{"koala.example", "Other.Example."}
	for host, want := range map[string]bool{
		"":                   true,
		"127.0.0.1:9981":     true,
		"127.0.0.1":          true,
		"[::1]:9981":         true,
		"[::1]":              true,
		"10.0.0.7:80":        true,
		"localhost:9981":     true,
		"LOCALHOST.":         true,
		"koala.example:9981": true,
		"KOALA.example":      true,
		"other.example":      true,
		"evil.example:9981":  false,
		"koalagate.svc":      false,
		"localhost.evil.com": false,
		"127.0.0.1.evil.com": false,
		"127.0.0.1:80:80":    false,
		"user@127.0.0.1":     false,
		"xkoala.example":     false,
		"[::1]evil.example":  false,
		"::1":                true,
	} {
		if got := AllowsHost(host, names); got != want {
			t.Errorf("AllowsHost(%q) = %v, want %v", host, got, want)
		}
	}
}

func TestKnownHostsDoNotAllocate(t *testing.T) {
	names := []string{"koala.example"}
	for _, host := range []string{"127.0.0.1:9981", "127.0.0.1", "[::1]:9981", "localhost", "koala.example", "koalagate", "koalagate.prod.svc:9981"} {
		if n := testing.AllocsPerRun(100, func() {
			if !AllowsHost(host, names) && !IsPrivateName(host) {
				t.Fatalf("%s is not allowed", host)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations, want none", host, n)
		}
	}
}

func TestIsPrivateName(t *testing.T) {
	for host, want := range map[string]bool{
		"koalagate:9981":                     true,
		"koalagate.prod.svc:9981":            true,
		"koalagate.prod.svc.cluster.local.":  true,
		"koalagate.prod:9981":                false, // prod could be a public domain
		"evil.example":                       false,
		"svc.evil.example":                   false,
		"koalagate.svc.cluster.local.evil.x": false,
		"":                                   false,
	} {
		if got := IsPrivateName(host); got != want {
			t.Errorf("IsPrivateName(%q) = %v, want %v", host, got, want)
		}
	}
}

func TestIsForeign(t *testing.T) {
	for _, c := range []struct {
		header, value string
		want          bool
	}{
		{"Accept", "*/*", false},
		{"Sec-Fetch-Site", "none", false},
		{"Sec-Fetch-Site", "same-origin", false},
		{"Sec-Fetch-Site", "same-site", true},
		{"Sec-Fetch-Site", "cross-site", true},
		{"Sec-Fetch-Site", "x", true},
		{"Origin", "http://127.0.0.1:9981", false},
		{"Origin", "http://127.0.0.1:8000", true},
		{"Origin", "https://evil.example", true},
		{"Origin", "null", true},
		{"Origin", "%", true},
	} {
		r := &http.Request{Host: "127.0.0.1:9981", Header: http.Header{c.header: {c.value}}}
		if got := IsForeign(r); got != c.want {
			t.Errorf("%s: %s: %v, want %v", c.header, c.value, got, c.want)
		}
	}
}

// Chromium, Firefox and Safari are told from programs by headers that no page can change.
func TestBrowsersAreTold(t *testing.T) {
	for _, c := range []struct {
		name, header, value string
		post, get           bool
	}{
		{"curl", "Accept", "*/*", false, false},
		{"Prometheus", "Accept-Encoding", "gzip", false, false},
		{"Python", "Accept-Encoding", "gzip, deflate", false, true},
		{"headless Chromium", "Accept-Encoding", "gzip, deflate", false, true},
		{"a browser", "Accept-Language", "en", true, true},
		{"a post of a page", "Origin", "null", true, true},
		{"a page on this machine", "Sec-Fetch-Site", "same-origin", true, true},
		{"an empty header", "Accept-Language", "", true, true},
	} {
		r := &http.Request{Header: http.Header{c.header: {c.value}}}
		if post, get := SentPost(r), MaySendGet(r); post != c.post || get != c.get {
			t.Errorf("%s: %v and %v; want %v and %v", c.name, post, get, c.post, c.get)
		}
	}
}
