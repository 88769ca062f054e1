package ratelimit

import (
	"testing"

	"github.com/koalagate/koalagate/internal/dropin/imported"
	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/rules"
)

// Calls that began before a reload meet the limits before beside calls that meet the new ones.
// Neither compile limits again, and the lists of operators still read the keys of both.
func TestReloadsCompileLimitsOnce(t *testing.T) {
	sets := make([]*envoylimits.Set, 3)
	for i := range sets {
		config, err := envoylimits.Read("config.edge", []byte("domain: edge\ndescriptors:\n  - key: some_key\n    rate_limit: {unit: hour, requests_per_unit: 9}\n"))
		if err != nil {
			t.Fatal(err)
		}
		if sets[i], err = envoylimits.Compile([]*envoylimits.Config{config}, false); err != nil {
			t.Fatal(err)
		}
	}
	r := &limitRules{options: new(imported.Options)}
	of := func(set *envoylimits.Set) *rules.Rule { return r.of(set, set.Limits()[0], always) }
	before, now := of(sets[0]), of(sets[1])
	for range 3 {
		if of(sets[0]) != before || of(sets[1]) != now {
			t.Fatal("a call compiled limits that were compiled already")
		}
	}
	for i, rule := range []*rules.Rule{before, now} {
		if r.current.Load().limit(rule) != sets[i].Limits()[0] {
			t.Errorf("the limit of set %d is unknown", i)
		}
	}
	of(sets[2])
	if r.current.Load().limit(before) != nil || r.current.Load().limit(now) == nil {
		t.Error("want the rules of the last two sets, and no others")
	}
}
