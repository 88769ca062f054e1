package envoy_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// offered sends requests of a tenant at a rate per second until ctx ends, and returns how
// many passed and how many it sent. The senders do not catch up on requests that a busy machine
// made them miss.
func offered(ctx context.Context, t *testing.T, url, tenant string, rate int) func() (passed, all int64) {
	t.Helper()
	const senders = 16
	var passed, sent atomic.Int64
	var all sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: senders}, Timeout: 2 * time.Second}
	for range senders {
		all.Go(func() {
			tick := time.NewTicker(time.Second * senders / time.Duration(rate))
			defer tick.Stop()
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
				resp, err := client.Do(r)
				if err != nil {
					continue // of an Envoy that was killed
				}
				resp.Body.Close()
				sent.Add(1)
				if resp.StatusCode == http.StatusOK {
					passed.Add(1)
				}
			}
		})
	}
	return func() (int64, int64) {
		all.Wait()
		client.CloseIdleConnections()
		return passed.Load(), sent.Load()
	}
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
	began := time.Now()
	passed, sent := offered(ctx, t, g.URL+"/", "acme", 300)()
	seconds := time.Since(began).Seconds()
	most := 200 + 100*(seconds+1)
	t.Logf("%d of %d requests passed in %.1f s; the limit is %.0f", passed, sent, seconds, most)
	// The first share is a quarter of the limit; it follows the demand from the first report on.
	if least := min(0.5*float64(sent), 20*seconds); float64(passed) > most || float64(passed) < least {
		t.Errorf("%d of %d requests passed in %.1f s; want %.0f at least, and %.0f at most", passed, sent, seconds, least, most)
	}
	rig.WantStatus(t, http.StatusOK, "GET", g.URL+"/") // matches no bucket
}
