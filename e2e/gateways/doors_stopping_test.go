package gateways_test

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// Gateways with several instances that fail closed lose no request while an instance
// drains, and call another one if an instance is down. No request counts twice.
func TestHTTPGatewaysWhileInstancesStop(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*rig.Fixture, *e2e.App, ...string) *e2e.Gateway{
		"caddy":   rig.CaddyWith(rig.CaddyFailsClosed),
		"haproxy": rig.HAProxyWith([2]string{"#http-request deny deny_status 503", "http-request deny deny_status 503"}),
	} {
		t.Run(name, func(t *testing.T) {
			h := rig.NewFixture(t)
			rules, redis := h.File("rules.conf", rig.LimitedTo(1_000_000)), h.Redis().URL()
			var all []*e2e.Koalagate
			for range 3 {
				all = append(all, rig.Must(h.Stage.Koalagate(rig.Binary, rig.RaceSettings[:1], "--rules", rules, "--redis", redis))(t))
			}
			going, dying, staying := all[0], all[1], all[2]
			g := start(h, h.App(), rig.AddressesOf(all)...)

			stop := rig.Load(t, g.URL+"/api/comments")
			rig.Signal(t, going, syscall.SIGTERM)
			if !going.Ended(20 * time.Second) {
				t.Error("the instance still runs 20 s after SIGTERM")
			}
			sent := stop()
			if err := dying.Kill(); err != nil {
				t.Fatal(err)
			}
			for range 10 {
				rig.WantStatus(t, 200, "POST", g.URL+"/api/comments", "X-User-Id: ann")
				sent++
			}
			want := fmt.Sprintf(`{"err_no":0, "err_msg":"", "cache_val":%d}`, sent)
			if r := rig.WantStatus(t, http.StatusOK, "GET", "http://"+staying.HTTP+"/rule/value?rule_no=201&act=comment&uid=ann"); r.Body != want {
				t.Errorf("%d requests passed, and the count is %s", sent, r.Body)
			}
		})
	}
}
