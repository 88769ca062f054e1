package caddy_test

import (
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// The probe detects configurations of Caddy that pass a client's claims to koalagate.
func TestProbeOfCaddy(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	k := h.Koalagate("--rules", h.File("rules.conf", rig.DoorRules))
	app := h.App()

	t.Run("the sample", func(t *testing.T) {
		rig.Probe(t, 0, []string{"request 6 is refused with 429, by rule 201", "no faults"}, rig.Comments(rig.CaddyWith()(h, app, k.HTTP), "sample")...)
	})
	rig.TestFact(t, 152, func(t *testing.T) { // without a question mark, the check's URL gets the client's query
		g := rig.CaddyWith([2]string{"uri /v1/forward-auth?\n", "uri /v1/forward-auth\n"})(h, app, k.HTTP)
		rig.Probe(t, 1, []string{"a request over the limit passes with the query act=koalagate-probe", "end the `uri` with a question mark"}, rig.Comments(g, "query")...)
		rig.WaitUntil(t, "the log names it", func() bool { return strings.Contains(k.Log(), "clients choose parameters") })
	})
	rig.TestFact(t, 153, func(t *testing.T) { // outside route, forward_auth runs before request_header
		g := rig.CaddyWith(
			[2]string{"\t# `route` keeps this order.", "\t# `handle` does not keep this order."},
			[2]string{"\troute {\n", "\thandle {\n"},
			[2]string{"\t\trespond @undecided 503\n", ""}, // else it refuses everything
			[2]string{"\t\theader_up X-Koala-Param-Act {vars.koala_act}\n", ""})(h, app, k.HTTP)
		rig.Probe(t, 1, []string{"a request over the limit passes with X-Koala-Param-act: koalagate-probe"}, rig.Comments(g, "order")...)
	})
	t.Run("names in Connection", func(t *testing.T) { // GW-154
		h.Stage.Authenticate("ann", "bob")
		k := h.Koalagate("--rules", h.File("users.conf", rig.DoorRules)) // no request has counted by address
		for user, g := range map[string]*e2e.Gateway{"ann": rig.CaddyWith()(h, app, k.HTTP), "bob": rig.CaddyWith([2]string{"\t\trespond @odd_connection 400\n", ""})(h, app, k.HTTP)} {
			code, want := 0, "no faults"
			if user == "bob" {
				code, want = 1, "a request over the limit passes with Connection: "
			}
			rig.Probe(t, code, []string{want}, g.URL+"/api/comments", "--method", "POST", "--header", g.As(user), "--requests", "20")
		}
	})
}
