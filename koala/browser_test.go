package koala_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/koalagate/koalagate/koala"
)

func TestWebPagesAreRefused(t *testing.T) {
	o := options(t)
	o.Hosts = []string{"rules.example"}
	h := koala.New(o)
	for _, c := range []struct {
		host, header, value string
		want                int
	}{
		{"127.0.0.1:9981", "", "", 200},
		{"[::1]:9981", "", "", 200},
		{"localhost:9981", "", "", 200},
		{"", "", "", 200},
		{"rules.example:9981", "", "", 200},
		{"koalagate:9981", "", "", 200},
		{"koalagate.prod.svc:9981", "", "", 200},
		{"koalagate.prod.svc.cluster.local:9981", "", "", 200},
		{"koalagate.prod:9981", "", "", 421},
		{"evil.example:9981", "", "", 421},
		{"evil.example:9981", "Origin", "http://evil.example:9981", 421},
		{"evil.example:9981", "Sec-Fetch-Site", "same-origin", 421},
		{"127.0.0.1:9981", "Origin", "http://evil.example", 403},
		{"127.0.0.1:9981", "Origin", "null", 403},
		{"127.0.0.1:9981", "Sec-Fetch-Site", "cross-site", 403},
		{"localhost:9981", "Sec-Fetch-Site", "same-site", 403},
		{"localhost:9981", "Sec-Fetch-Site", "none", 200},
		{"localhost:9981", "Sec-Fetch-Site", "same-origin", 200},
	} {
		for _, target := range []string{
			"/rule/take?uid=web", "/rule/browse?uid=web", "/rule/update?act=post&uid=web", "/rule/refund?act=post&uid=web", "/rule/feedback?uid=web",
			"/rule/browse_complete?uid=web", "/rule/value?rule_no=201&act=post&uid=web", "/rule/reset?rule_no=201&uid=web", "/multi/browse?argsJson=[]", "/admin/allrules", "//rule/browse/?uid=web",
		} {
			for _, method := range []string{"GET", "POST"} {
				if got := from(h, method, target, c.host, c.header, c.value); got != c.want {
					t.Errorf("%s %s with Host %q and %s %q: %d, want %d", method, target, c.host, c.header, c.value, got, c.want)
				}
			}
		}
		if got := from(h, "GET", "/monitor/alive", c.host, c.header, c.value); got != http.StatusOK {
			t.Errorf("/monitor/alive with Host %q: %d, want 200", c.host, got)
		}
	}
}

func from(h http.Handler, method, target, host, header, value string) int {
	r := httptest.NewRequest(method, target, http.NoBody)
	r.Host = host
	if header != "" {
		r.Header.Set(header, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

// Wrong tokens of an address are slowed, and the right token of another one is not.
func TestWrongTokensAreSlowed(t *testing.T) {
	o, refused := options(t), 0
	o.Token, o.Refused = "token-of-koala", func(reason string) {
		if refused++; reason != "token" {
			t.Errorf("refused because of %s", reason)
		}
	}
	h := koala.New(o)
	ask := func(peer, token string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/rule/browse?uid=ann", http.NoBody)
		r.RemoteAddr = peer
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for i, token := range []string{"a", "b", "c", "d", "e", "f", o.Token} {
		want := http.StatusForbidden
		if i >= 5 {
			want = http.StatusTooManyRequests
		}
		w := ask("192.0.2.1:1", token)
		if w.Code != want || (w.Header().Get("Retry-After") == "") != (want == http.StatusForbidden) {
			t.Errorf("token %d: %d, Retry-After %q; want %d", i+1, w.Code, w.Header().Get("Retry-After"), want)
		}
	}
	if w := ask("192.0.2.2:1", o.Token); w.Code != http.StatusOK || refused != 7 {
		t.Errorf("another address: %d, %d refusals; want 200 and 7", w.Code, refused)
	}
	for i := range 12 { // one program with an old token keeps no other of its address out
		ask("127.0.0.1:1", "old")
		if w := ask("127.0.0.1:2", o.Token); w.Code != http.StatusOK {
			t.Errorf("after %d calls with an old token: %d", i+1, w.Code)
		}
	}
}
