package ratelimit_test

import (
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/dropin/imported"
	"github.com/koalagate/koalagate/internal/dropin/statistics"
	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/wire/wiretest"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/ratelimit"
	"github.com/koalagate/koalagate/rules"
)

func benchDoor(b *testing.B, requests uint32) *ratelimit.Limits {
	config := &envoylimits.Config{Name: "c", Domain: "lab", Descriptors: []envoylimits.Descriptor{{Key: "uid", Policy: &envoylimits.Policy{Unit: "hour", Requests: requests}}}}
	set, err := envoylimits.Compile([]*envoylimits.Config{config}, false)
	if err != nil {
		b.Fatal(err)
	}
	none, _ := rules.Parse([]rules.Source{{Name: "none", Text: []byte(nothing)}}, rules.Options{AllowEmpty: true})
	limits, err := ratelimit.NewLimits(imported.Options{Current: func() *envoylimits.Set { return set }, Statistics: statistics.New(0.8)}, ratelimit.New(ratelimit.Options{PlainEntries: true, Engine: engine.New(none, wiring.CountIn(memory.New(memory.Options{})))}))
	if err != nil {
		b.Fatal(err)
	}
	return limits
}

func BenchmarkImported(b *testing.B) {
	for _, test := range []struct {
		name        string
		descriptors int
		limit       uint32
	}{{"one admitted", 1, 1000000000}, {"four admitted", 4, 1000000000}, {"one refused", 1, 1}, {"four refused", 4, 1}} {
		b.Run(test.name, func(b *testing.B) {
			door := wiretest.Open(benchDoor(b, test.limit))
			callWith(b, door, test.descriptors)
		})
	}
}
