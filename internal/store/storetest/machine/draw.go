package machine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/koalagate/koalagate/internal/store"
)

// Move is how the clock moves between two steps of a dialogue, in ms.
var Move = rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 50), rapid.Int64Range(0, 5000),
	rapid.Int64Range(-4000, 0), rapid.Int64Range(0, 40_000_000), rapid.Int64Range(-3_000_000, 0))

// Zones loads time zones.
func Zones(t *testing.T, names ...string) []*time.Location {
	t.Helper()
	var zones []*time.Location
	for _, name := range names {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		zones = append(zones, zone)
	}
	return zones
}

// Plan draws a plan of any operation over two subjects.
func Plan(rt *rapid.T, now int64, zone *time.Location) *store.Plan {
	p := &store.Plan{
		Op:   rapid.SampledFrom([]store.Op{store.Take, store.Take, store.Take, store.Browse, store.Update, store.Refund, store.Complete, store.CompleteTake, store.Peek, store.Reset}).Draw(rt, "op"),
		Now:  now,
		Zone: zone,

		Patience: rapid.SampledFrom([]int64{60_000, 60_000, 700, 0}).Draw(rt, "patience"),
	}
	for range rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(rt, "sets") {
		kind := rapid.IntRange(0, 15).Draw(rt, "kind")
		set := store.Set{Allows: kind != 1, Refund: p.Op == store.Take && kind == 2}
		for range rapid.SampledFrom([]int{1, 1, 2, 3, 0}).Draw(rt, "rules") {
			set.Rules = append(set.Rules, Rule(rt))
		}
		p.Sets = append(p.Sets, set)
	}
	return Unify(p)
}

// Unify gives the rules of one counter the definition of the first of them, as in a
// plan of a rule set, where each rule has counters of its own. Their weights stay.
func Unify(p *store.Plan) *store.Plan {
	type counter struct {
		subject string
		number  int64
	}
	first := make(map[counter]store.Rule)
	for i := range p.Sets {
		rules := slices.Clone(p.Sets[i].Rules) // other plans of a dialogue may share them
		p.Sets[i].Rules = rules
		for k, r := range rules {
			key := counter{string(r.Subject), r.Return}
			if defined, ok := first[key]; ok {
				defined.Weight = r.Weight
				rules[k] = defined
			} else {
				first[key] = r
			}
		}
	}
	return p
}

// elsewhere returns the plan with one of its rules on the other subject.
func elsewhere(rt *rapid.T, p *store.Plan, now int64) *store.Plan {
	p = &store.Plan{Op: p.Op, Now: now, Zone: p.Zone, Patience: p.Patience, Sets: slices.Clone(p.Sets)}
	if rules := slices.Clone(p.Sets[0].Rules); len(rules) > 0 {
		at := rapid.IntRange(0, len(rules)-1).Draw(rt, "elsewhere")
		rules[at].Subject = []byte{1 - rules[at].Subject[0]}
		p.Sets[0].Rules = rules
	}
	return Unify(p)
}

// Rule draws a rule in few draws: many small draws would take most of the time of ten
// thousand dialogues.
func Rule(rt *rapid.T) store.Rule {
	r := rapid.SampledFrom(shapes).Draw(rt, "shape")
	r.Weight = weights.Draw(rt, "weight")
	n := rapid.IntRange(0, 2*2*6*6-1).Draw(rt, "rest")
	r.Subject, n = []byte{byte(n % 2)}, n/2
	r.Return, n = int64(1+n%2), n/2
	r.Shadow, n = n%6 == 5, n/6
	r.Allows = n%6 == 5
	n = rapid.IntRange(0, 3*4*3*5-1).Draw(rt, "words")
	if r.Method != store.Base {
		r.Overdraft = n%3 == 2
	}
	n /= 3
	if r.Method == store.Count || r.Method == store.Leak {
		r.Ban = []int64{0, 0, 2, 600}[n%4]
	}
	n /= 4
	if r.Method == store.Token {
		r.Wait = min([]int64{0, 500, 60_000}[n%3], (1<<53-r.Burst*r.Time*1000)/max(r.Count, 1))
	}
	if n/3 == 4 && !r.Shadow {
		r.Marked, r.Ban, r.Wait = true, 0, 0
	}
	return r
}

var weights = rapid.OneOf(rapid.Just(int64(1)), rapid.Int64Range(0, 9), rapid.SampledFrom([]int64{1 << 31, store.MaxWeight, store.MaxWeight - 1}))

// shapes are rules of every method with many thresholds.
var shapes = func() []store.Rule {
	var list []store.Rule
	for _, time := range []int64{1, 2, 60, 7200, store.Day} {
		for _, count := range []int64{1, 2, 3, 5, 20, 1000} {
			list = append(list, store.Rule{Method: store.Count, Time: time, Count: count}, store.Rule{Method: store.Leak, Time: time, Count: count})
			for _, base := range []int64{1, 2, 5} {
				list = append(list, store.Rule{Method: store.Base, Time: time, Count: count, Base: base})
			}
			for _, burst := range []int64{1, 2, 7, 1000} {
				list = append(list, store.Rule{Method: store.Token, Time: time, Count: count, Burst: burst})
			}
		}
		list = append(list, large(time)...)
	}
	return append(list, units()...)
}()

// large returns rules with the largest and the smallest thresholds.
func large(time int64) []store.Rule {
	most := int64(1<<53) / (time * 1000) // tokens
	return []store.Rule{
		{Method: store.Count, Time: time, Count: 9e15},
		{Method: store.Count, Time: time, Count: 0},
		{Method: store.Leak, Time: time, Count: 9e15},
		{Method: store.Leak, Time: time, Count: 0},
		{Method: store.Token, Time: time, Count: 9e15, Burst: most},
		{Method: store.Token, Time: time, Count: 3, Burst: most},
		{Method: store.Token, Time: time, Count: 0, Burst: 5},
		{Method: store.Token, Time: time, Count: 2, Burst: 0},
	}
}

// units returns rules of every calendar unit, and of windows since the epoch.
func units() []store.Rule {
	var list []store.Rule
	for _, count := range []int64{1, 2, 5, 1000} {
		for unit := store.Minute; unit <= store.Year; unit++ {
			list = append(list, store.Rule{Method: store.Count, Unit: unit, Count: count})
		}
		for _, time := range []int64{1, 7, 3600, store.Day} {
			list = append(list, store.Rule{Method: store.Count, Unit: store.Epoch, Time: time, Count: count})
		}
		for _, from := range []uint8{1, 3, 7} {
			list = append(list, store.Rule{Method: store.Count, Unit: store.Week, From: from, Count: count})
		}
		for _, from := range []uint8{1, 15, 29, 31} {
			list = append(list, store.Rule{Method: store.Count, Unit: store.Month, From: from, Count: count})
		}
	}
	return list
}

// Describe returns a plan as text for failures.
func Describe(p *store.Plan) string { return fmt.Sprintf("%+v", *p) }
