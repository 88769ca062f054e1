package hostile_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// queuedCalls returns the number of calls that wait for their turns at an instance.
func queuedCalls(t *testing.T, k *e2e.Koalagate) int {
	t.Helper()
	r := rig.Send(t, "GET", "http://"+k.Admin+"/metrics")
	found := regexp.MustCompile(`(?m)^koalagate_waiting_calls (\d+)$`).FindStringSubmatch(r.Body)
	if found == nil {
		t.Fatal("no metric of waiting calls")
	}
	return rig.Must(strconv.Atoi(found[1]))(t)
}

// One client sends thousands of requests to the partner of the sample, on one connection of
// HTTP/2. None reaches the partner before its turn; those beyond its share of the queue are
// refused at once; another client gets its turn, and requests to the application are answered.
// When the client leaves, its places are free.
func TestHostileClientFillsTheQueue(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	const share, each = 20, 200 * time.Millisecond // of the sample: places of an address, and turns
	record := new(rig.Arrivals)
	partner := httptest.NewServer(record)
	t.Cleanup(partner.Close)
	app := h.App()
	k := h.Koalagate("--rules", h.SampleRules("examples/partner-queue.conf"))
	requests := 1_500
	if *long {
		requests = 5_000
	}
	g := rig.QueueEnvoy(h, strings.TrimPrefix(partner.URL, "http://"), app.Address, []*e2e.Koalagate{k}, [2]string{" timeout: 12s", " timeout: 120s"})
	ctx, leave := context.WithCancel(t.Context())
	transport := &http.Transport{Protocols: new(http.Protocols), MaxIdleConnsPerHost: 1}
	transport.Protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: transport}
	var mu sync.Mutex
	answers := make(map[int]int) // by status
	var senders sync.WaitGroup
	begin := time.Now()
	for i := range requests {
		senders.Go(func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("%s/partners/acme/%d", g.URL, i), http.NoBody)
			if err != nil {
				t.Error(err)
				return
			}
			answer, err := client.Do(r)
			if err != nil {
				return // it has left
			}
			answer.Body.Close()
			mu.Lock()
			defer mu.Unlock()
			answers[answer.StatusCode]++
		})
	}
	rig.WaitUntil(t, "the client's requests beyond its share are refused", func() bool {
		mu.Lock()
		defer mu.Unlock()
		// The gateway itself refuses what it cannot ask about at the same time.
		return answers[http.StatusTooManyRequests] > 0 && answers[http.StatusTooManyRequests]+answers[http.StatusServiceUnavailable] >= requests/2
	})
	if waiting := queuedCalls(t, k); waiting > share {
		t.Errorf("%d calls of the client wait; want its share of %d at most", waiting, share)
	}
	for range 5 {
		rig.WantStatus(t, http.StatusOK, "GET", g.URL+"/")
	}
	neighbor := &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext}}
	r := rig.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+"/partners/acme/neighbor", http.NoBody))(t)
	answer := rig.Must(neighbor.Do(r))(t)
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("another client gets %d; want its turn", answer.StatusCode)
	}
	leave()
	senders.Wait()
	rig.WaitUntil(t, "all places are free", func() bool { return queuedCalls(t, k) == 0 })
	passed := len(record.Reached())
	if most := int(time.Since(begin)/each) + 1; passed > most {
		t.Errorf("%d requests reached the partner in %v; want %d at most", passed, time.Since(begin), most)
	}
	t.Logf("%d requests: %v, %d reached the partner", requests, answers, passed)
}
