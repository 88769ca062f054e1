package envoy_test

import (
	"context"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// tenant is whose requests the tests of quotas send.
const tenant = "acme"

// request is a request to the gateway of a number, at times since the first one.
type request struct {
	gateway        int
	sent, answered time.Duration
	passed         bool
}

// requests are all requests of a test.
type requests struct {
	begun   time.Time
	senders sync.WaitGroup
	mu      sync.Mutex
	list    []request
}

// send sends requests to a gateway at a rate per second until ctx ends. The senders do not catch
// up on requests that a busy machine made them miss. What a gateway does not answer is not
// recorded.
func (l *requests) send(ctx context.Context, t *testing.T, gateway int, url string, rate int) {
	t.Helper()
	const senders = 16
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: senders}, Timeout: 2 * time.Second}
	for range senders {
		l.senders.Go(func() {
			tick := time.NewTicker(time.Second * senders / time.Duration(rate))
			defer tick.Stop()
			defer client.CloseIdleConnections()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				r, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodGet, url, http.NoBody)
				if err != nil {
					t.Error(err)
					return
				}
				r.Header.Set("X-Tenant", tenant)
				one := request{gateway: gateway, sent: time.Since(l.begun)}
				resp, err := client.Do(r)
				if err != nil {
					continue // of an Envoy that was killed or stands still
				}
				resp.Body.Close()
				one.answered, one.passed = time.Since(l.begun), resp.StatusCode == http.StatusOK
				l.mu.Lock()
				l.list = append(l.list, one)
				l.mu.Unlock()
			}
		})
	}
}

// passed waits for the senders, and returns the requests that passed, in the order of the
// answers, and how many were answered.
func (l *requests) passed() (passed []request, all int) {
	l.senders.Wait()
	for _, one := range l.list {
		if one.passed {
			passed = append(passed, one)
		}
	}
	slices.SortFunc(passed, func(a, b request) int { return int(a.answered - b.answered) })
	return passed, len(l.list)
}

// burst returns the most requests that were admitted in any time beyond a rate per second:
// sent in it, and answered in it.
func burst(passed []request, rate float64) (most float64) {
	if len(passed) == 0 {
		return 0
	}
	last := passed[len(passed)-1].answered
	for from := time.Duration(0); from < last; from += 20 * time.Millisecond {
		n := 0
		for i := range passed {
			if passed[i].sent >= from {
				n++
				most = max(most, float64(n)-rate*(passed[i].answered-from).Seconds())
			}
		}
	}
	return most
}

// between returns how many requests were answered in a time.
func between(passed []request, from, to time.Duration) (n int) {
	for i := range passed {
		if passed[i].answered >= from && passed[i].answered < to {
			n++
		}
	}
	return n
}

// gap returns the longest time without an admission at a gateway.
func gap(passed []request, gateway int, from, to time.Duration) (longest time.Duration) {
	last := from
	for i := range passed {
		if one := &passed[i]; one.gateway == gateway && one.answered > last && one.answered < to {
			longest, last = max(longest, one.answered-last), one.answered
		}
	}
	return max(longest, to-last)
}

// One Envoy with the sample keeps the limit of its rule: 200 requests at once, then 100 a
// second.
func TestQuotaHoldsAtOneEnvoy(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	k := h.Koalagate("--rules", h.SampleRules("examples/edge-quota.conf"))
	g := rig.QuotaEnvoy(h, "edge-1", h.App().Address, []*e2e.Koalagate{k})
	rig.WaitUntil(t, "the first share arrives", func() bool {
		r, err := rig.TrySend("GET", g.URL+"/", "X-Tenant: acme")
		return err == nil && r.Status == http.StatusOK
	})
	const during = 10 * time.Second
	ctx, stop := context.WithTimeout(t.Context(), during)
	defer stop()
	l := requests{begun: time.Now()}
	l.send(ctx, t, 0, g.URL+"/", 300)
	passed, sent := l.passed()
	most := burst(passed, 100)
	t.Logf("%d of %d requests passed, %.0f at most beyond the rate", len(passed), sent, most)
	if most > 200 {
		t.Errorf("%.0f requests passed at once beyond the rate; want 200 at most", most)
	}
	// The first share is a quarter of the limit; it follows the demand from the first report on.
	if least := min(sent/2, int(20*during.Seconds())); len(passed) < least {
		t.Errorf("%d of %d requests passed; want %d at least", len(passed), sent, least)
	}
	rig.WantStatus(t, http.StatusOK, "GET", g.URL+"/") // matches no bucket
	for want, args := range map[string][]string{
		"of 100 hits per second, to gateways that decide by themselves: 1": {"why", "--door", "rlqs", "domain=edge", "tenant=acme"},
		"tenant=#": {"top", "--by", "refused"}, // a digest
	} {
		var out []byte
		if !rig.BecomesTrue(func() (shown bool) {
			var err error
			out, err = exec.Command(rig.Binary, append(args, "--admin", k.Admin)...).CombinedOutput()
			return err == nil && strings.Contains(string(out), want)
		}) {
			t.Errorf("%s shows no %q:\n%s", args[0], want, out)
		}
	}
}
