package metrics

import (
	"net/http/httptest"
	"strings"
	"testing"
)

func TestLeasedHitsAreCounted(t *testing.T) {
	m := New(Build{})
	m.WatchLeases(func() Leases { return Leases{Held: 3, Spent: 40, Returned: 5, Lost: 6, Early: 7} })
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		"koalagate_lease_held_hits 3\n", `koalagate_lease_hits_total{outcome="spent"} 40`, `koalagate_lease_hits_total{outcome="returned"} 5`,
		`koalagate_lease_hits_total{outcome="lost"} 6`, "koalagate_lease_early_refusals_total 7\n",
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}
