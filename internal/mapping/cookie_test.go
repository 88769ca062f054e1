package mapping

import (
	"net/http"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/doorname"
)

func TestCookieValue(t *testing.T) {
	for _, c := range []struct{ name, header, want string }{
		{"alone", "uid=ann", "ann"},
		{"among others", "a=b; uid=ann; c=d", "ann"},
		{"the first counts", "uid=ann; uid=eve", "ann"},
		{"the first counts, empty or not", "uid=; uid=eve", ""},
		{"without blanks", "a=b;uid=ann;c=d", "ann"},
		{"with too many", "  a = b ;\tuid = ann ; ", "ann"},
		{"quoted", `uid="ann"`, "ann"},
		{"a quote alone", `uid="`, `"`},
		{"quoted nothing", `uid=""`, ""},
		{"an equals sign in the value", "uid=a=b==", "a=b=="},
		{"escapes are the application's", "uid=%61+b", "%61+b"},
		{"a comma is no end", "uid=a,b", "a,b"},
		{"case matters", "UID=eve; uid=ann", "ann"},
		{"no value at all", "uid; uid=ann", "ann"},
		{"no name", "=eve; uid=ann", "ann"},
		{"empty pieces", ";; ;uid=ann;;", "ann"},
		{"a name that ends in it", "xuid=eve; uid=ann", "ann"},
		{"not UTF-8, and a NUL", "uid=\xff\x00", "\xff\x00"},
		{"a blank beyond ASCII makes another name", "\u00a0uid=eve; uid=ann", "ann"},
		{"what no cookie may hold goes behind what one may", "uid=\xff; uid=e\\; uid=e\"; uid=ann; uid=eve", "ann"},
		{"an empty one counts as well", "uid=\xff; uid=; uid=ann", ""},
		{"of several that no cookie may hold the first", "uid=e\\; uid=\xff", "e\\"},
		{"absent", "a=b", ""},
		{"empty", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := cookieValue(c.header, "uid"); got != c.want {
				t.Errorf("the cookie uid of %q is %q, want %q", c.header, got, c.want)
			}
		})
	}
}

// Envoy joins two Cookie headers by a comma, but applications read both.
func TestCookiesCannotHideOtherCookies(t *testing.T) {
	for joined, want := range map[string]string{
		"a=1":                     "a=1",
		"a=1; uid=x":              "a=1; uid=x",
		"a=1,uid=x":               "a=1; uid=x",
		"a=1,uid=x,b=2; c=3,d=4":  "a=1; uid=x; b=2; c=3; d=4",
		"garbage,uid=x":           "garbage; uid=x",
		",uid=x":                  "; uid=x",
		"a=1, uid=x":              "a=1;  uid=x",
		"uid=doe,john":            "uid=doe,john",
		"uid=doe,john,":           "uid=doe,john,",
		"uid=a,b c=d":             "uid=a,b c=d",
		"uid=a,=b":                "uid=a,=b",
		"uid=\"a,b\",uid=mallory": "uid=\"a,b\"; uid=mallory",
	} {
		if got := SplitCookies(joined); got != want {
			t.Errorf("%s becomes %q; want %q", joined, got, want)
		}
	}
}

// A complete Cookie header is the same string at both doors for Envoy.
func TestCookieHeaderOverHTTP(t *testing.T) {
	call := &Request{Door: doorname.ExtAuthzWeb, Method: "GET", Path: "/v1/ext-authz/", Headers: HTTPHeaders{
		"X-Forwarded-For": {"198.51.100.7"}, "Cookie": {"a=1,uid=x"},
	}}
	wantParam(t, with(t, "all : header Cookie", ""), call, &Options{}, "all", "a=1; uid=x")
}

func FuzzCookie(f *testing.F) {
	for _, s := range []string{"uid=ann", "a=b; uid=\"x\"; uid=y", ";;=;uid", "uid = a=b", "uid\n= a=a== b"} {
		f.Add(s, "uid")
	}
	f.Fuzz(func(t *testing.T, header, name string) {
		got := cookieValue(header, name)
		if strings.Contains(got, ";") || !strings.Contains(header, got) {
			t.Fatalf("the cookie %q of %q is %q", name, header, got)
		}
		// The value must be that of net/http, except that languages other than Go also
		// remove quotes next to blanks.
		r := http.Request{Header: http.Header{"Cookie": {header}}}
		isQuoted := strings.Contains(strings.NewReplacer(" ", "", "\t", "").Replace(header), `="`)
		if cookie, err := r.Cookie(name); err == nil && cookie.Value != "" && !isQuoted && trim(got) != trim(cookie.Value) {
			t.Fatalf("the cookie %q of %q is %q; net/http returns %q", name, header, got, cookie.Value)
		}
	})
}
