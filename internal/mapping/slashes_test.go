package mapping

import (
	"testing"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/rules"
)

func TestEncodedSlashes(t *testing.T) {
	const refused = "refused"
	set := plain(t)
	for _, c := range []struct{ target, keep, split, refuse string }{
		{"/a/b", "/a/b", "/a/b", "/a/b"},
		{"/a/b/", "/a/b/", "/a/b/", "/a/b/"},
		{"/a%2Fb%2fc", "/a%2Fb%2Fc", "/a/b/c", refused},
		{"/a%2F", "/a%2F", "/a/", refused},
		{"/a%2f..%2Fb", "/a%2F..%2Fb", refused, refused},
		{"/a%2F%2fb", "/a%2F%2Fb", refused, refused},
		{"/a/../b", "/b", refused, "/b"},
		{"/a//b", "/a/b", refused, "/a/b"},
		{"/%2e%2e%2fb", "/..%2Fb", refused, refused},
		{"/a%2F%2e", "/a%2F.", refused, refused},
		{"/a%252Fb", "/a%252Fb", "/a%252Fb", "/a%252Fb"},
		{"/a%5Cb", `/a\b`, `/a\b`, refused},
		{`/a\b`, `/a\b`, `/a\b`, refused},
		{"/a?b%2Fc%5c", "/a", "/a", "/a"},
		{"/a%2Fb\"", refused, `/a/b"`, refused},
		{"/a%2F\xff", refused, "/a/\xff", refused},
		{"/a/%2F/b", refused, refused, refused},
		{"/a/%2f", refused, refused, refused},
		{"/a\xff", "/a\xff", "/a\xff", "/a\xff"},
	} {
		for option, want := range map[EncodedSlashes]string{KeepEncodedSlashes: c.keep, SplitEncodedSlashes: c.split, RefuseEncodedSlashes: c.refuse} {
			var p rules.Params
			got := refused
			if Params(set, &Request{Door: doorname.Middleware, Method: "GET", Path: c.target}, &Options{EncodedSlashes: option}, &p) == nil {
				got, _ = p.Get("path")
			}
			if got != want {
				t.Errorf("%s with option %d: %q, want %q", c.target, option, got, want)
			}
		}
	}
}

func TestConnectMustHaveAResolvedPath(t *testing.T) {
	for _, target := range []string{"/a/../b", "//a", "/a/.", "/a//b"} {
		wantRefusal(t, &Request{Door: doorname.Middleware, Method: "CONNECT", Path: target}, &Options{}, 400)
	}
	wantParam(t, plain(t), &Request{Door: doorname.Middleware, Method: "CONNECT", Path: "/a/b/"}, &Options{}, "path", "/a/b/")
}
