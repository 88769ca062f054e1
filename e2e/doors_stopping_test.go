package e2e_test

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
)

// Gateways with several instances that fail closed lose no request while an instance
// drains, and call another one if an instance is down. No request counts twice.
func TestHTTPGatewaysWhileInstancesStop(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*fixture, *e2e.App, ...string) *e2e.Gateway{
		"caddy":   caddyWith(caddyFailsClosed),
		"haproxy": haproxyWith([2]string{"#http-request deny deny_status 503", "http-request deny deny_status 503"}),
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t)
			rules, redis := h.file("rules.conf", limitedTo(1_000_000)), h.redis().URL()
			var all []*e2e.Koalagate
			for range 3 {
				all = append(all, must(h.stage.Koalagate(binary, raceSettings[:1], "--rules", rules, "--redis", redis))(t))
			}
			going, dying, staying := all[0], all[1], all[2]
			g := start(h, h.app(), addressesOf(all)...)

			stop := load(t, g.URL+"/api/comments")
			signal(t, going, syscall.SIGTERM)
			if !going.Ended(20 * time.Second) {
				t.Error("the instance still runs 20 s after SIGTERM")
			}
			sent := stop()
			if err := dying.Kill(); err != nil {
				t.Fatal(err)
			}
			for range 10 {
				wantStatus(t, 200, "POST", g.URL+"/api/comments", "X-User-Id: ann")
				sent++
			}
			want := fmt.Sprintf(`{"err_no":0, "err_msg":"", "cache_val":%d}`, sent)
			if r := wantStatus(t, http.StatusOK, "GET", "http://"+staying.HTTP+"/rule/value?rule_no=201&act=comment&uid=ann"); r.body != want {
				t.Errorf("%d requests passed, and the count is %s", sent, r.body)
			}
		})
	}
}
