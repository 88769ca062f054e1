package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
)

// queueEnvoy starts the sample for queues in front of an application and a partner.
func queueEnvoy(h *fixture, partner, app string, instances []*e2e.Koalagate, pairs ...[2]string) *e2e.Gateway {
	h.Helper()
	const endpoint = "        - endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: %s } } }\n"
	var endpoints strings.Builder
	for _, k := range instances {
		fmt.Fprintf(&endpoints, endpoint, port(k.GRPC))
	}
	return must(h.stage.EnvoySample("envoy/envoy-queue.yaml", append(pairs,
		[2]string{"port_value: 9901 ", "port_value: 0 "},
		[2]string{"port_value: 10000 ", "port_value: 0 "},
		[2]string{"port_value: 8000 ", "port_value: " + port(app) + " "},
		[2]string{"port_value: 8001 ", "port_value: " + port(partner) + " "},
		[2]string{fmt.Sprintf(endpoint, "9191"), endpoints.String()})...))(h.T)
}

// All requests to the partner of the sample get their turns, through two instances, and
// none arrives before its turn.
func TestPartnerGetsRequestsAtItsRate(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	record := new(arrivals)
	partner := httptest.NewServer(record)
	t.Cleanup(partner.Close)
	instances := h.pair(h.sampleRules("examples/partner-queue.conf"))
	g := queueEnvoy(h, strings.TrimPrefix(partner.URL, "http://"), h.app().Address, instances, [2]string{" timeout: 12s", " timeout: 60s"})
	const requests = 12
	begin := time.Now()
	concurrently(requests, func(i int) {
		if r, err := trySend("POST", g.URL+"/partners/acme/orders"); err != nil || r.status != http.StatusOK {
			t.Errorf("request %d: %d, %v; want 200 at its turn", i, r.status, err)
		}
	})
	slices.SortFunc(record.times, time.Time.Compare)
	if len(record.times) != requests {
		t.Fatalf("%d requests reached the partner; want %d", len(record.times), requests)
	}
	for i, at := range record.times {
		if turn := time.Duration(i) * 200 * time.Millisecond; at.Sub(begin) < turn-time.Millisecond {
			t.Errorf("request %d reached the partner after %v; its turn came after %v", i, at.Sub(begin), turn)
		}
	}
}

// A queue that is full refuses its own requests, and no others.
func TestFullQueueLeavesOtherRequestsAlone(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	app := h.app()
	k := h.koalagate("--rules", h.sampleRules("examples/partner-queue.conf", [2]string{"time=1; count=5; burst=1; wait=10", "time=3600; count=60; burst=1; wait=60"}))
	const most = "max_connections: 1000, max_pending_requests: 1000, max_requests: 1000"
	g := queueEnvoy(h, app.Address, app.Address, []*e2e.Koalagate{k},
		[2]string{most, strings.ReplaceAll(most, "1000", "1")}, [2]string{" timeout: 12s", " timeout: 120s"})
	wantStatus(t, http.StatusOK, "POST", g.URL+"/partners/acme/orders") // has its turn at once
	ctx, leave := context.WithCancel(context.Background())
	request := must(http.NewRequestWithContext(ctx, http.MethodPost, g.URL+"/partners/acme/orders", http.NoBody))(t)
	left := make(chan struct{})
	go func() {
		defer close(left)
		if resp, err := new(http.Client).Do(request); err == nil {
			resp.Body.Close()
		}
	}()
	defer func() { leave(); <-left }()
	waitUntil(t, "a request waits for its turn", func() bool {
		r, err := trySend("GET", "http://"+k.Admin+"/metrics")
		return err == nil && strings.Contains(r.body, "koalagate_waiting_calls 1\n")
	})
	wantStatus(t, http.StatusServiceUnavailable, "POST", g.URL+"/partners/acme/orders")
	for range 5 {
		wantStatus(t, http.StatusOK, "GET", g.URL+"/")
	}
}
