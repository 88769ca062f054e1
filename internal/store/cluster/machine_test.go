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
// the model, with windows of the calendar, limits of the request, overdrafts, bans and
// takes that wait. A take that is counted answers as the model does. So does a refused
// take of one set, or of which the slots are asked first. If another take has several sets
// over several slots, the answer to each set is what its slots saw: it may report further
// refusals, and may refuse what the model admits, but never the reverse.
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

// overSlots is random plans, each evaluated by a Cluster and by the model.
type overSlots struct {
	*rapid.T
	store   *cluster.Store
	model   *machine.Model
	got     store.Answers
	waiting []waiting
}

// waiting is a take that waits for its turn.
type waiting struct {
	plan  *store.Plan
	undo  any
	taken []machine.Taken
}

// compareOverSlots sends random plans to the store and to the model, and compares
// the answers.
func compareOverSlots(rt *rapid.T, r *cluster.Store, dialogue int, zone *time.Location) {
	d := overSlots{T: rt, store: r, model: machine.NewModel()}
	now := int64(1_793_505_600_000) + rapid.Int64Range(-90_000_000, 90_000_000).Draw(rt, "begin")
	for range rapid.IntRange(1, 30).Draw(rt, "steps") {
		now += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 50), rapid.Int64Range(0, 5000), rapid.Int64Range(0, 40_000_000)).Draw(rt, "move")
		if !d.evaluate(planOverSlots(rt, dialogue, now, zone)) {
			return
		}
		if len(d.waiting) > 0 && rapid.IntRange(0, 2).Draw(rt, "cancel") == 0 {
			d.cancel(now)
		}
	}
}

// evaluate evaluates a plan on both, compares their answers, and reports whether the
// model knows what the store has counted.
func (d *overSlots) evaluate(p *store.Plan) bool {
	if err := d.store.Evaluate(context.Background(), p, &d.got); err != nil {
		d.Fatalf("%s: %v", machine.Describe(p), err)
	}
	d.store.AwaitUndone()
	d.Logf("%s: %+v", machine.Describe(p), d.got)
	before := d.model.Clone()
	want, got := d.model.Evaluate(p), d.got.Sets
	severalSets := len(p.Sets) > 1 && (p.Op == store.Take || p.Op == store.CompleteTake)
	switch {
	case machine.Alike(want, got):
		d.compareTurns(p)
	case severalSets && counts(p, got) && !counts(p, want):
		d.Fatalf("%s: admitted one too many (-model +store):\n%s", machine.Describe(p), cmp.Diff(want, machine.Normalize(&d.got).Sets))
	case severalSets && !counts(p, got) && (p.Op != store.Take || !cluster.AsksFirst(p)):
		*d.model = *before
		return !lasts(p) // which rules were reached is not in the answers
	case severalSets && sameDeciders(want, got): // a set that allows may report its counter before the other sets counted
		d.compareTurns(p)
	default:
		d.Fatalf("%s: the store differs from the model (-model +store):\n%s", machine.Describe(p), cmp.Diff(want, machine.Normalize(&d.got).Sets))
	}
	return true
}

// compareTurns compares the turn of a take or a browse, which a take may cancel later.
func (d *overSlots) compareTurns(p *store.Plan) {
	if d.got.Wait != d.model.Wait || (d.got.Undo != nil) != (d.model.Taken != nil) {
		d.Fatalf("%s: the store answers a wait of %d ms and Undo %v; the model %d ms and %v", machine.Describe(p), d.got.Wait, d.got.Undo, d.model.Wait, d.model.Taken)
	}
	if d.got.Undo != nil {
		d.waiting = append(d.waiting, waiting{p, d.got.Undo, d.model.Taken})
	}
}

// cancel cancels one of the takes that wait.
func (d *overSlots) cancel(now int64) {
	i := rapid.IntRange(0, len(d.waiting)-1).Draw(d.T, "who")
	w := d.waiting[i]
	d.waiting = slices.Delete(d.waiting, i, i+1)
	p := *w.plan
	p.Now = now
	if err := d.store.Cancel(context.Background(), &p, &store.Answers{Undo: w.undo}); err != nil {
		d.Fatalf("cancel %s: %v", machine.Describe(&p), err)
	}
	d.store.AwaitUndone()
	d.model.Cancel(w.taken, now)
}

// lasts reports whether a plan has a rule on which a refused take may leave something.
func lasts(p *store.Plan) bool {
	return slices.ContainsFunc(p.Sets, func(s store.Set) bool {
		return slices.ContainsFunc(s.Rules, func(r store.Rule) bool { return r.Overdraft || r.Ban > 0 })
	})
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

// planOverSlots returns a plan over eight subjects. The thresholds of a bucket never
// change: if they changed during a give-back, it might lose a partial token.
func planOverSlots(rt *rapid.T, dialogue int, now int64, zone *time.Location) *store.Plan {
	p := machine.Plan(rt, now, zone)
	for i := range p.Sets {
		if len(p.Sets) > 1 {
			p.Sets[i].Refund = false // over several slots refunds come last, in one slot first
		}
		var once []store.Rule // a rule matches a set once
		for _, r := range p.Sets[i].Rules {
			n := rapid.IntRange(0, 8*len(fixedRules)-1).Draw(rt, "rule")
			fixed := fixedRules[n/8]
			fixed.Subject, fixed.Weight, fixed.Shadow, fixed.Allows = fmt.Appendf(nil, "%d-%d", dialogue, n%8), min(r.Weight, 9), r.Shadow && !fixed.Marked, r.Allows
			if fixed.Return == limitOfRequest {
				fixed.Count = rapid.Int64Range(0, 6).Draw(rt, "limit")
			}
			if !slices.ContainsFunc(once, func(o store.Rule) bool { return o.Return == fixed.Return && string(o.Subject) == string(fixed.Subject) }) {
				once = append(once, fixed)
			}
		}
		p.Sets[i].Rules = once
	}
	return p
}

var fixedRules = []store.Rule{
	{Return: 1, Method: store.Count, Time: 60, Count: 5},
	{Return: 2, Method: store.Count, Time: store.Day, Count: 9},
	{Return: 3, Method: store.Base, Time: 60, Count: 3, Base: 4},
	{Return: 4, Method: store.Leak, Time: 60, Count: 6},
	{Return: 5, Method: store.Token, Time: 60, Count: 2, Burst: 7},
	{Return: 6, Method: store.Count, Unit: store.Hour, Count: 5},
	{Return: 7, Method: store.Count, Unit: store.Month, From: 15, Count: 7, Overdraft: true},
	{Return: 8, Method: store.Leak, Time: 60, Count: 6, Overdraft: true},
	{Return: 9, Method: store.Count, Unit: store.Epoch, Time: 3600, Count: 4, Ban: 600},
	{Return: 10, Method: store.Leak, Time: 60, Count: 3, Ban: 2},
	{Return: 11, Method: store.Token, Time: 60, Count: 2, Burst: 7, Overdraft: true},
	{Return: 12, Method: store.Token, Time: 1, Count: 1, Burst: 2, Wait: 5000},
	{Return: 13, Method: store.Token, Time: 60, Count: 9, Burst: 9, Wait: 60_000},
	{Return: limitOfRequest, Method: store.Count, Time: 60}, // from a table or a parameter
	{Return: 15, Method: store.Count, Time: 60, Count: 3, Marked: true},
	{Return: 16, Method: store.Token, Time: 60, Count: 2, Burst: 3, Marked: true},
	{Return: 17, Method: store.Leak, Time: 60, Count: 2, Overdraft: true, Marked: true},
}

// limitOfRequest is the number of the rule whose limit each request brings.
const limitOfRequest = 14
