package service

import (
	"slices"
	"strconv"
	"testing"

	"github.com/koalagate/koalagate/internal/dropin/statistics"
	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/internal/metrics"
)

// limitsOf compiles descriptors of the domain d.
func limitsOf(t *testing.T, list ...envoylimits.Descriptor) *envoylimits.Set {
	t.Helper()
	set, err := envoylimits.Compile([]*envoylimits.Config{{Name: "c", Domain: "d", Descriptors: list}}, false)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func limitOf(key string, requests uint32, shadow bool) envoylimits.Descriptor {
	return envoylimits.Descriptor{Key: key, Shadow: shadow, Policy: &envoylimits.Policy{Unit: "hour", Requests: requests}}
}

// totalsOf returns the counts of the imported limit with a path.
func totalsOf(m *metrics.Metrics, path string) metrics.RuleTotals {
	list := m.RuleTotals()
	i := slices.IndexFunc(list, func(r metrics.RuleTotals) bool { return r.Number == 0 && r.Name == path })
	if i < 0 {
		return metrics.RuleTotals{}
	}
	return list[i]
}

func TestImportedLimitsAreCountedAsRules(t *testing.T) {
	m := metrics.New(metrics.Build{})
	set := limitsOf(t, limitOf("ten", 10, false), limitOf("shadow", 0, true))
	l := &limitCounts{Statistics: statistics.New(0.8), metrics: m, current: func() *envoylimits.Set { return set }, near: 0.8}
	ten, shadow := set.Limits()[0], set.Limits()[1]
	for after := uint64(1); after <= 12; after++ {
		l.Counted(ten.Path, ten, 10, 1, after-1, after)
	}
	l.Counted(ten.Path, ten, 100, 1, 12, 13) // with an exception
	l.Counted(shadow.Path, shadow, 0, 1, 0, 1)
	l.Counted("d.own", &envoylimits.Limit{Path: "d.own", Requests: 1, Unit: envoylimits.Day}, 1, 1, 0, 1)
	if got := totalsOf(m, "d.ten"); got.Admitted != 11 || got.Near != 2 || got.Refused != 2 || got.Shadow != 0 {
		t.Errorf("d.ten: %+v", got)
	}
	if got := totalsOf(m, "d.shadow"); got.Admitted != 1 || got.Refused != 0 || got.Shadow != 1 {
		t.Errorf("d.shadow: %+v", got)
	}
	if n := len(m.RuleTotals()); n != 2 {
		t.Errorf("%d rows; want none for the limit of a descriptor", n)
	}

	// A limit that stays keeps its counts, with another number too.
	set = limitsOf(t, limitOf("ten", 20, false))
	l.Counted("d.ten", set.Limits()[0], 20, 1, 12, 13)
	if got := totalsOf(m, "d.ten"); got.Admitted != 12 || len(m.RuleTotals()) != 1 {
		t.Errorf("after a change: %+v of %d rows", got, len(m.RuleTotals()))
	}
}

func TestManyImportedLimitsShareCounts(t *testing.T) {
	m := metrics.New(metrics.Build{})
	var list []envoylimits.Descriptor
	for i := range 1005 {
		list = append(list, limitOf("k"+strconv.Itoa(i), 1, false))
	}
	set := limitsOf(t, list...)
	l := &limitCounts{Statistics: statistics.New(0.8), metrics: m, current: func() *envoylimits.Set { return set }, near: 0.8}
	for _, limit := range set.Limits() {
		l.Counted(limit.Path, limit, 1, 1, 0, 1)
	}
	if rows, other := len(m.RuleTotals()), totalsOf(m, ""); rows != 1001 || other.Admitted != 5 {
		t.Errorf("%d rows, and %+v for the others; want 1001 and 5", rows, other)
	}
}
