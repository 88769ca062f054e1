package app

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/operations"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/rules"
)

const leaseRules = `[rules]
rule : [count] [api=+] [time=3600; count=100000; lease=20%] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// openLeasing opens an instance that holds parts as long as the test runs.
func openLeasing(t *testing.T, url string) *App {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.conf")
	if err := os.WriteFile(file, []byte(leaseRules), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := Open(Options{Files: reload.Files{Paths: []string{file}}, Redis: &redis.Options{URL: url, Budget: time.Minute}, LeaseTime: 10 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// What an instance holds in advance is reported by another one, outlives a reset of the
// counter, and is given back when the instance closes.
func TestHeldHitsAreReportedAndGivenBack(t *testing.T) {
	url := storetest.StartServer(t).URL()
	holder, other := openLeasing(t, url), openLeasing(t, url)
	defer other.Close()
	api := rules.MakeParams(map[string]string{"api": "a"})
	// The hits of one call are at one instant, however slow the machine is.
	inputs := slices.Repeat([]engine.Input{{Params: api}}, 8)
	admitted := int64(0)
	for begin := time.Now(); holder.Leases().Held == 0; admitted += int64(len(inputs)) {
		d, err := holder.Engine().Decide(t.Context(), &engine.Call{Op: engine.Take, Inputs: inputs})
		if err != nil || !d.Allowed() {
			t.Fatalf("after %d hits: %v, %v", admitted, d, err)
		}
		if time.Since(begin) > time.Minute {
			t.Fatal("a busy counter has no part")
		}
	}
	var met rules.Matches
	other.Engine().Rules().Match(api, &met)
	counter := func() engine.Counter {
		t.Helper()
		list, degraded, err := other.Engine().Counters(t.Context(), met.List)
		if err != nil || degraded {
			t.Fatalf("degraded %v, %v", degraded, err)
		}
		return list[0]
	}
	desk := operations.New(operations.Options{Engine: other.Engine(), Refusals: operations.NewRefusals()})
	storetest.Eventually(t, func() error { // a request for more may be under way
		c, held := counter(), holder.Leases().Held
		if c.Used != admitted+held || c.Leased < held || held == 0 {
			return fmt.Errorf("used %d, leased %d; want %d admitted hits and %d held ones", c.Used, c.Leased, admitted, held)
		}
		why, err := desk.Why(t.Context(), &operations.Question{Params: map[string]string{"api": "a"}})
		if err != nil || len(why.Rules) != 1 || why.Rules[0].Leased != c.Leased {
			return fmt.Errorf("why: %+v, %w; want %d held hits", why, err, c.Leased)
		}
		return nil
	})

	match, err := other.Engine().Rules().Rules[0].Identify(api)
	if err != nil {
		t.Fatal(err)
	}
	if degraded, err := other.Engine().ResetCounter(t.Context(), match); err != nil || degraded {
		t.Fatalf("degraded %v, %v", degraded, err)
	}
	after := counter()
	if after.Used != after.Leased || after.Used == 0 {
		t.Errorf("after a reset, %d hits are counted, and %d leased; want what is held", after.Used, after.Leased)
	}
	held := holder.Leases().Held
	if err := holder.Close(); err != nil {
		t.Fatal(err)
	}
	if l := holder.Leases(); l.Returned != held || l.Held != 0 || l.Lost != 0 {
		t.Errorf("the closed instance has %+v; want %d returned hits", l, held)
	}
	if c := counter(); c.Leased != 0 || c.Used != after.Used-held {
		t.Errorf("after the close, %d hits are counted, and %d leased; want %d and none", c.Used, c.Leased, after.Used-held)
	}
}
