package metrics

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestSettlementsAreCounted(t *testing.T) {
	m := New(Build{})
	m.WatchReceipts(func() (int, uint64) { return 3, 5 })
	m.WatchSettlements(func() int { return 7 })
	m.Issued()
	m.Settled(SettledOK, 2*time.Second)
	m.Settled(SettledUnknown, 0)
	m.Renewed(SettledDeferred)
	m.WatchReports([]string{"malformed", "too_long"})
	m.ReportDropped("malformed")
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		"koalagate_receipts_total 1\n", `koalagate_settlements_total{result="ok"} 1`, `koalagate_settlements_total{result="unknown"} 1`, `koalagate_settlements_total{result="error"} 0`,
		`koalagate_renewals_total{result="deferred"} 1`, "koalagate_receipt_age_seconds_sum 2\n", "koalagate_receipt_age_seconds_count 1\n",
		`koalagate_reports_dropped_total{reason="malformed"} 1`, `koalagate_reports_dropped_total{reason="too_long"} 0`,
		"koalagate_settlements_waiting 7\n", "koalagate_memory_receipts 3\n", "koalagate_memory_receipts_expired_total 5\n",
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

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
