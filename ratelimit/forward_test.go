package ratelimit_test

import (
	"strings"
	"testing"

	"github.com/koalagate/koalagate/ratelimit"
)

// Envoy adds the forwarded headers that have a value to an allowed request: the value of the
// first descriptor with the parameter.
func TestForward(t *testing.T) {
	const text = `
[params]
user : descriptor login
[forward]
X-User-Id : user
X-Plan    : plan
` + outcomes
	d := open(t, text, func(o *ratelimit.Options) { o.SendHeaders = true })
	for name, c := range map[string]struct{ descriptors, want string }{
		"none":      {one("a", "b"), ""},
		"one":       {one("login", "ann"), "X-User-Id: ann"},
		"the first": {one("a", "b") + ", " + one("login", "ann") + ", " + one("login", "bob"), "X-User-Id: ann"},
		"both":      {one("login", "ann") + ", " + one("plan", "gold"), "X-User-Id: ann, X-Plan: gold"},
		"too long":  {one("login", strings.Repeat("u", 1025)), ""},
		"a refusal": {one("login", "ann") + ", " + one("act", "black"), ""},
	} {
		reply := d.ask(c.descriptors)
		var got []string
		for _, h := range reply.GetRequestHeadersToAdd() {
			got = append(got, h.GetKey()+": "+h.GetValue())
		}
		if strings.Join(got, ", ") != c.want || strings.Contains(reply.String(), "ann") && c.want == "" {
			t.Errorf("%s: %q; want %s in %v", name, got, c.want, reply)
		}
	}
}
