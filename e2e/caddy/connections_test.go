package caddy_test

import (
	"net/http"
	"sync"
	"testing"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// Caddy 2.6 dials for a check in the background while the check may go on by another connection,
// and then dials the address to which the request goes by then: the application's. Later checks on
// this connection ask the application. A line of the sample opens a connection for each check;
// without it, the sample refuses what the application has answered.
func TestChecksReachKoalagateAlone(t *testing.T) {
	t.Parallel()
	for name, pairs := range map[string][][2]string{
		"a connection for each check": nil, "with open connections": {e2e.KeepsConnections},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := rig.NewFixture(t)
			k := h.Koalagate("--rules", h.File("rules.conf", rig.OneCounter))
			ledger := rig.Must(h.Stage.Ledger())(t)
			for range 3 { // the connections of a new Caddy are all new
				g := rig.CaddyWith(append(pairs, rig.CaddyFailsClosed)...)(h, &e2e.App{Address: ledger.Address}, k.HTTP)
				refused := burst(t, g.URL+"/a")
				asked, undecided := 0, 0
				for _, entry := range ledger.Take()[""] {
					switch {
					case entry.Path == "/v1/forward-auth":
						asked++
					case entry.Path != "/healthz" && entry.Header.Get("X-Koala-Decision") != "allow":
						undecided++
					}
				}
				t.Logf("%d checks reached the application; %d requests were refused for lack of a decision", asked, refused)
				if undecided != 0 || pairs == nil && asked+refused != 0 {
					t.Errorf("%d requests reached the application without a decision", undecided)
				}
			}
		})
	}
}

// burst sends many requests at once, several times, and returns how many got 503.
func burst(t *testing.T, url string) (refused int) {
	t.Helper()
	const senders, rounds = 300, 3
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: senders}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	var all sync.WaitGroup
	for range senders {
		all.Go(func() {
			for range rounds {
				resp, err := client.Get(url)
				if err != nil {
					t.Error(err)
					return
				}
				_ = resp.Body.Close()
				if resp.StatusCode == http.StatusServiceUnavailable {
					mu.Lock()
					refused++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return refused
}
