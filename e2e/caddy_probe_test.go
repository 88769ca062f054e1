package e2e_test

import (
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e"
)

// The probe detects configurations of Caddy that pass a client's claims to koalagate.
func TestProbeOfCaddy(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	k := h.koalagate("--rules", h.file("rules.conf", doorRules))
	app := h.app()

	t.Run("the sample", func(t *testing.T) {
		probe(t, 0, []string{"request 6 is refused with 429, by rule 201", "no faults"}, comments(caddyWith()(h, app, k.HTTP), "sample")...)
	})
	testFact(t, 152, func(t *testing.T) { // without a question mark, the check's URL gets the client's query
		g := caddyWith([2]string{"uri /v1/forward-auth?\n", "uri /v1/forward-auth\n"})(h, app, k.HTTP)
		probe(t, 1, []string{"a request over the limit passes with the query act=koalagate-probe", "end the `uri` with a question mark"}, comments(g, "query")...)
		waitUntil(t, "the log names it", func() bool { return strings.Contains(k.Log(), "clients choose parameters") })
	})
	testFact(t, 153, func(t *testing.T) { // outside route, forward_auth runs before request_header
		g := caddyWith(
			[2]string{"\t# `route` keeps this order.", "\t# `handle` does not keep this order."},
			[2]string{"\troute {\n", "\thandle {\n"},
			[2]string{"\t\theader_up X-Koala-Param-Act {vars.koala_act}\n", ""})(h, app, k.HTTP)
		probe(t, 1, []string{"a request over the limit passes with X-Koala-Param-act: koalagate-probe"}, comments(g, "order")...)
	})
	t.Run("names in Connection", func(t *testing.T) { // GW-154
		h.stage.Authenticate("ann", "bob")
		k := h.koalagate("--rules", h.file("users.conf", doorRules)) // no request has counted by address
		for user, g := range map[string]*e2e.Gateway{"ann": caddyWith()(h, app, k.HTTP), "bob": caddyWith([2]string{"\t\trespond @odd_connection 400\n", ""})(h, app, k.HTTP)} {
			code, want := 0, "no faults"
			if user == "bob" {
				code, want = 1, "a request over the limit passes with Connection: "
			}
			probe(t, code, []string{want}, g.URL+"/api/comments", "--method", "POST", "--header", g.As(user), "--requests", "20")
		}
	})
}
