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
