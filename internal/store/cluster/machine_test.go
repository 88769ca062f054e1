package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/cluster"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/store/storetest/machine"
)

// TestClusterAnswersAsTheModel evaluates plans over many slots on a Cluster and on
// the model. A take that is counted answers as the model does. So does a refused
// take of one set. If a take has several sets over several slots, the answer to
// each set is what its slots saw: it may report further refusals, and may refuse
// what the model admits, but never the reverse.
func TestClusterAnswersAsTheModel(t *testing.T) {
	cluster := storetest.StartCluster(t, 3, false)
	n := 0
	storetest.InWays(t, storetest.Ways(*long), func(t *testing.T, way storetest.Way) {
		dialogues := 50
		if *long {
			dialogues = way.Of(10_000)
		}
		machine.Dialogues(t, dialogues)
		r := cluster.Open(t, redis.Options{Linger: time.Hour}, way)
		zones := machine.Zones(t, "Asia/Shanghai", "America/New_York")
		rapid.Check(t, func(rt *rapid.T) {
			n++ // each dialogue uses new subjects
			compareOverSlots(rt, r, n, rapid.SampledFrom(zones).Draw(rt, "zone"))
		})
	})
}

// compareOverSlots sends random plans to the store and to the model, and compares
// the answers.
func compareOverSlots(rt *rapid.T, r *cluster.Store, dialogue int, zone *time.Location) {
	model := machine.NewModel()
	now := int64(1_793_505_600_000) + rapid.Int64Range(-90_000_000, 90_000_000).Draw(rt, "begin")
	for i := range rapid.IntRange(1, 30).Draw(rt, "steps") {
		now += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 50), rapid.Int64Range(0, 5000), rapid.Int64Range(0, 40_000_000)).Draw(rt, "move")
		p := planOverSlots(rt, dialogue, now, zone)
		var got store.Answers
		if err := r.Evaluate(context.Background(), p, &got); err != nil {
			rt.Fatalf("step %d: %s: %v", i, machine.Describe(p), err)
		}
		r.AwaitUndone()
		before := model.Clone()
		want := model.Evaluate(p)
		takes := p.Op == store.Take || p.Op == store.CompleteTake
		switch {
		case machine.Alike(want, got.Sets):
		case takes && len(p.Sets) > 1 && counts(p, got.Sets) && !counts(p, want):
			rt.Fatalf("step %d: %s: admitted one too many (-model +store):\n%s", i, machine.Describe(p), cmp.Diff(want, machine.Normalize(&got).Sets))
		case takes && len(p.Sets) > 1 && !counts(p, got.Sets):
			*model = *before
		case takes && len(p.Sets) > 1 && sameDeciders(want, got.Sets): // a set that allows may report its counter before the other sets counted
		default:
			rt.Fatalf("step %d: %s: the store differs from the model (-model +store):\n%s", i, machine.Describe(p), cmp.Diff(want, machine.Normalize(&got).Sets))
		}
	}
}

func sameDeciders(a, b []store.Answer) bool {
	return slices.EqualFunc(a, b, func(a, b store.Answer) bool { return a.Decider == b.Decider })
}

// counts reports whether a take with these answers was counted.
func counts(p *store.Plan, answers []store.Answer) bool {
	for i := range p.Sets {
		allows := p.Sets[i].Allows
		if j := answers[i].Decider; j >= 0 {
			allows = p.Op == store.Take && p.Sets[i].Rules[j].Allows
		}
		if !allows && !p.Sets[i].Refund {
			return false
		}
	}
	return true
}

// planOverSlots returns a plan over eight subjects. The thresholds of a rule never
// change: if they changed during a give-back, a bucket might lose a partial token.
func planOverSlots(rt *rapid.T, dialogue int, now int64, zone *time.Location) *store.Plan {
	p := machine.Plan(rt, now, zone)
	for i := range p.Sets {
		if len(p.Sets) > 1 {
			p.Sets[i].Refund = false // over several slots refunds come last, in one slot first
		}
		for j := range p.Sets[i].Rules {
			r := &p.Sets[i].Rules[j]
			n := rapid.IntRange(0, 8*len(fixedRules)-1).Draw(rt, "rule")
			fixed := fixedRules[n/8]
			fixed.Subject, fixed.Weight, fixed.Shadow, fixed.Allows = fmt.Appendf(nil, "%d-%d", dialogue, n%8), min(r.Weight, 9), r.Shadow, r.Allows
			*r = fixed
		}
	}
	return p
}

var fixedRules = []store.Rule{
	{Return: 1, Method: store.Count, Time: 60, Count: 5},
	{Return: 2, Method: store.Count, Time: store.Day, Count: 9},
	{Return: 3, Method: store.Base, Time: 60, Count: 3, Base: 4},
	{Return: 4, Method: store.Leak, Time: 60, Count: 6},
	{Return: 5, Method: store.Token, Time: 60, Count: 2, Burst: 7},
}
