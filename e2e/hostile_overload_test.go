package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// More callers than the machine can serve within Envoy's 20 ms get no more than their
// limit: the instance does not take its own lack of CPU for a Redis that is away. A
// machine may stop Redis itself for longer than a call's budget; then the instance
// rightly counts in process, and the round is repeated with another user.
func TestHostileOverloadGivesNoFreshLimits(t *testing.T) {
	h := newFixture(t)
	const limit, callers, each, rounds = 100, 400, 5, 10
	k := must(h.stage.Koalagate(h.released(), nil, "--redis", h.redis().URL(), "--rules", h.file("rules.conf", fmt.Sprintf(`
[rules]
rule : [count] [door=ratelimit; uid=+] [time=3600; count=%d] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`, limit))))(t)
	app := h.app()
	g := must(h.stage.EnvoySample("envoy/envoy.yaml",
		[2]string{"port_value: 9901 ", "port_value: 0 "}, [2]string{"port_value: 10000 ", "port_value: 0 "},
		[2]string{"port_value: 8000 ", "port_value: " + port(app.Address) + " "}, [2]string{"port_value: 9191 ", "port_value: " + port(k.GRPC) + " "},
		[2]string{"remote_address: {}", "request_headers: { header_name: x-user-id, descriptor_key: uid }"},
		[2]string{"              timeout: 0.5s\n              # If koalagate is down, there are no limits", "              timeout: 0.02s\n              # If koalagate is down, there are no limits"},
		[2]string{"failure_mode_deny: false", "failure_mode_deny: true"}))(t) // a call that Envoy gives up must not pass
	crowd := &http.Client{Timeout: client.Timeout, Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	for round := range rounds {
		left := strings.Count(k.Log(), "Redis is unreachable") // before the state: Redis may be left at any time
		waitUntil(t, "Redis is in use", func() bool {
			r, err := k.Readyz()
			return err == nil && r.Store == "redis"
		})
		before := app.Reached()
		var unanswered atomic.Int64
		concurrently(callers, func(int) {
			for range each {
				switch status := askAs(crowd, g.URL, fmt.Sprint("user", round)); status {
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

// askAs sends a request of a user, and returns its status; 0 if there is no answer.
func askAs(c *http.Client, url, user string) int {
	r, err := http.NewRequest(http.MethodGet, url+"/a", http.NoBody)
	if err != nil {
		return 0
	}
	r.Header.Set("X-User-Id", user)
	resp, err := c.Do(r)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}
