package hostile_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// More callers than the machine can serve within Envoy's 20 ms get no more than their
// limit: the instance does not take its own lack of CPU for a Redis that is away. A
// machine may stop Redis itself for longer than a call's budget; then the instance
// rightly counts in process, and the round is repeated with another user.
func TestHostileOverloadGivesNoFreshLimits(t *testing.T) {
	h := rig.NewFixture(t)
	const limit, callers, each, rounds = 100, 400, 5, 10
	k := rig.Must(h.Stage.Koalagate(h.Released(), nil, "--redis", h.Redis().URL(), "--rules", h.File("rules.conf", fmt.Sprintf(`
[rules]
rule : [count] [door=ratelimit; uid=+] [time=3600; count=%d] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`, limit))))(t)
	app := h.App()
	g := rig.Must(h.Stage.EnvoySample("envoy/envoy.yaml",
		[2]string{"port_value: 9901 ", "port_value: 0 "}, [2]string{"port_value: 10000 ", "port_value: 0 "},
		[2]string{"port_value: 8000 ", "port_value: " + rig.Port(app.Address) + " "}, [2]string{"port_value: 9191 ", "port_value: " + rig.Port(k.GRPC) + " "},
		[2]string{"remote_address: {}", "request_headers: { header_name: x-user-id, descriptor_key: uid }"},
		[2]string{"              timeout: 0.5s\n              # If koalagate is down, there are no limits", "              timeout: 0.02s\n              # If koalagate is down, there are no limits"},
		[2]string{"failure_mode_deny: false", "failure_mode_deny: true"}))(t) // a call that Envoy gives up must not pass
	crowd := &http.Client{Timeout: rig.Client.Timeout, Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	for round := range rounds {
		left := strings.Count(k.Log(), "Redis is unreachable") // before the state: Redis may be left at any time
		rig.WaitUntil(t, "Redis is in use", func() bool {
			r, err := k.Readyz()
			return err == nil && r.Store == "redis"
		})
		before := app.Reached()
		var unanswered atomic.Int64
		rig.Concurrently(callers, func(int) {
			for range each {
				switch status := rig.AskAs(crowd, g.URL, fmt.Sprint("user", round)); status {
				case http.StatusOK, http.StatusTooManyRequests:
				default: // Envoy has not waited for koalagate
					unanswered.Add(1)
				}
			}
		})
		passed := app.Reached() - before
		isAway := strings.Count(k.Log(), "Redis is unreachable") > left
		t.Logf("round %d: %d passed of a limit of %d, %d of %d calls took longer than 20 ms; Redis was left: %v", round, passed, limit, unanswered.Load(), callers*each, isAway)
		if isAway {
			continue
		}
		if passed > limit {
			t.Errorf("round %d: %d requests passed; want at most the limit of %d", round, passed, limit)
		}
		return
	}
	t.Errorf("Redis was left in each of %d rounds", rounds)
}
