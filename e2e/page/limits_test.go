package page

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const importedLimits = `domain: edge
descriptors:
- key: route
  value: r1
  descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 2, name: users}}
- {key: tier, value: "<b>gold</b>", shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 0}}
`

// In the place of envoyproxy/ratelimit, an operator sees the imported limits, and which of
// them applies to a descriptor, whatever its values are.
func TestImportedLimits(t *testing.T) {
	f := newFleet(t)
	var err error
	if f.redis, err = f.stage.Redis(); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "config"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "config", "limits.yaml"), []byte(importedLimits), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := f.stage.RateLimit(binary, "REDIS_URL="+f.redis.URL(), "RUNTIME_ROOT="+root, "RUNTIME_WATCH_ROOT=false", redisBudget)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		body := `{"domain":"edge","descriptors":[{"entries":[{"key":"route","value":"r1"},{"key":"user","value":"ann"}]}]}`
		answer, err := http.Post("http://"+k.HTTP+"/json", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Fatalf("call %d: %d; want %d", i, answer.StatusCode, want)
		}
	}
	w := open(t, k.Admin, "", desk)
	w.see("limit edge.route_r1.user") // among the rules that refuse
	w.visit("#/rules")
	w.see("2 imported limits")
	w.see("edge.tier_<b>gold</b>")
	w.accessible("imported limits")
	w.visit("#/try")
	w.choose("Door", "Envoy rate limit service")
	ask := func(descriptor, sees string) {
		t.Helper()
		w.write("Descriptor", descriptor)
		w.click("Ask why")
		w.see(sees)
	}
	ask("domain=edge\nroute=r1\nuser=ann", "by limit edge.route_r1.user with HTTP 429")
	w.see("3 used of 2, 0 left, the window ends in")
	w.accessible("try a descriptor")
	w.fits("try a descriptor")
	ask("domain=edge\nuser=ann\nroute=r1", fmt.Sprintf("None applies: nothing below %q matches %q", "edge", "user=ann"))
	ask("domain=edge\ntier=<b>gold</b>", "at most 0 per year, in shadow mode")
	ask("domain=edge\nroute=r1\nuser=bob", "0 used of 2, 2 left")
}
