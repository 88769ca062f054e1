package envoy_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// All requests to the partner of the sample get their turns, through two instances, and
// none arrives before its turn.
func TestPartnerGetsRequestsAtItsRate(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	record := new(rig.Arrivals)
	partner := httptest.NewServer(record)
	t.Cleanup(partner.Close)
	instances := h.Pair(h.SampleRules("examples/partner-queue.conf"))
	g := rig.QueueEnvoy(h, strings.TrimPrefix(partner.URL, "http://"), h.App().Address, instances, [2]string{" timeout: 12s", " timeout: 60s"})
	const requests = 12
	begin := time.Now()
	rig.Concurrently(requests, func(i int) {
		if r, err := rig.TrySend("POST", g.URL+"/partners/acme/orders"); err != nil || r.Status != http.StatusOK {
			t.Errorf("request %d: %d, %v; want 200 at its turn", i, r.Status, err)
		}
	})
	slices.SortFunc(record.Times, time.Time.Compare)
	if len(record.Times) != requests {
		t.Fatalf("%d requests reached the partner; want %d", len(record.Times), requests)
	}
	for i, at := range record.Times {
		if turn := time.Duration(i) * 200 * time.Millisecond; at.Sub(begin) < turn-time.Millisecond {
			t.Errorf("request %d reached the partner after %v; its turn came after %v", i, at.Sub(begin), turn)
		}
	}
}

// A queue that is full refuses its own requests, and no others.
func TestFullQueueLeavesOtherRequestsAlone(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	app := h.App()
	k := h.Koalagate("--rules", h.SampleRules("examples/partner-queue.conf", [2]string{"time=1; count=5; burst=1; wait=10", "time=3600; count=60; burst=1; wait=60"}))
	const most = "max_connections: 1000, max_pending_requests: 1000, max_requests: 1000"
	g := rig.QueueEnvoy(h, app.Address, app.Address, []*e2e.Koalagate{k},
		[2]string{most, strings.ReplaceAll(most, "1000", "1")}, [2]string{" timeout: 12s", " timeout: 120s"})
	rig.WantStatus(t, http.StatusOK, "POST", g.URL+"/partners/acme/orders") // has its turn at once
	ctx, leave := context.WithCancel(context.Background())
	request := rig.Must(http.NewRequestWithContext(ctx, http.MethodPost, g.URL+"/partners/acme/orders", http.NoBody))(t)
	left := make(chan struct{})
	go func() {
		defer close(left)
		if resp, err := new(http.Client).Do(request); err == nil {
			resp.Body.Close()
		}
	}()
	defer func() { leave(); <-left }()
	rig.WaitUntil(t, "a request waits for its turn", func() bool {
		r, err := rig.TrySend("GET", "http://"+k.Admin+"/metrics")
		return err == nil && strings.Contains(r.Body, "koalagate_waiting_calls 1\n")
	})
	rig.WantStatus(t, http.StatusServiceUnavailable, "POST", g.URL+"/partners/acme/orders")
	for range 5 {
		rig.WantStatus(t, http.StatusOK, "GET", g.URL+"/")
	}
}
