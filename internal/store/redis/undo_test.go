package redis_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// kept is a take that has not been given back.
type kept struct {
	hits
	back *redis.Taken
	free bool // all hits were free hits of a base rule, outside of the second window
}

// TestGiveBackNeverAdmitsOneTooMany takes on one counter as parts of larger takes
// do, and gives back early, late or never. The hits that were admitted and stay
// must keep to the definition of the rule at every step. At the instant at which
// the counter reports its end, no hit is left, given back or not.
func TestGiveBackNeverAdmitsOneTooMany(t *testing.T) {
	server := storetest.StartServer(t)
	client := server.Client()
	defer client.Close()
	dialogues(t, 400, 20_000)
	r, err := redis.Open(redis.Options{URL: server.URL(), Budget: time.Minute, Linger: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		rule := rapid.SampledFrom(contested).Draw(rt, "rule")
		rule.Count = min(rule.Count, 20)
		rule.Base = min(rule.Base, 5)
		rule.Subject = fmt.Appendf(nil, "%d", n)
		d := &dialogue{rt: rt, r: r, rule: rule, now: 1_793_505_600_000}
		for range rapid.IntRange(2, 60).Draw(rt, "steps") {
			d.now += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 3), rapid.Int64Range(0, 400), rapid.Int64Range(0, 1500)).Draw(rt, "move")
			d.step()
		}
		d.end()
	})
}

// dialogue is a sequence of operations on one counter, with the admitted takes.
type dialogue struct {
	rt    *rapid.T
	r     *redis.Store
	rule  store.Rule
	now   int64
	stays []kept // will not be given back
	open  []kept
}

func (d *dialogue) step() {
	if len(d.open) > 0 && rapid.IntRange(0, 2).Draw(d.rt, "back") == 0 {
		i := rapid.IntRange(0, len(d.open)-1).Draw(d.rt, "which")
		if err := d.r.GiveBack(context.Background(), d.open[i].back, d.now); err != nil {
			d.rt.Fatal(err)
		}
		d.open = slices.Delete(d.open, i, i+1)
		d.judge()
		return
	}
	d.rule.Weight = rapid.Int64Range(0, 6).Draw(d.rt, "weight")
	free := d.free()
	back, err := d.r.TakePart(context.Background(), d.plan(store.Take))
	switch {
	case err != nil:
		d.rt.Fatal(err)
	case back == nil:
	case rapid.IntRange(0, 3).Draw(d.rt, "stays") == 0:
		d.stays = append(d.stays, kept{hits{d.now, d.rule.Weight}, back, free})
	default:
		d.open = append(d.open, kept{hits{d.now, d.rule.Weight}, back, free})
	}
	d.judge()
}

// free reports whether the whole weight fits into the remaining free hits of today.
func (d *dialogue) free() bool {
	if d.rule.Method != store.Base {
		return false
	}
	var a store.Answers
	if err := d.r.Evaluate(context.Background(), d.plan(store.Peek), &a); err != nil {
		d.rt.Fatal(err)
	}
	return a.Sets[0].Daily && d.rule.Weight <= a.Sets[0].Remaining
}

func (d *dialogue) plan(op store.Op) *store.Plan {
	return &store.Plan{Op: op, Now: d.now, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{d.rule}}}}
}

// judge checks the takes that were not given back against the limits. If the take
// that opened a window gave back, the window stays for the takes that followed.
func (d *dialogue) judge() {
	all := slices.Concat(d.stays, d.open)
	if d.rule.Method == store.Count || d.rule.Method == store.Base {
		windows := map[int64]int64{}
		for _, k := range all {
			end, n := k.back.Window(d.rule.Method)
			if k.free {
				continue
			}
			if windows[end] += n; windows[end] > d.rule.Count {
				d.rt.Fatalf("rule %+v: %d hits in the window until %d", d.rule, windows[end], end)
			}
		}
		return
	}
	var list []hits
	for _, k := range all {
		if k.n > 0 {
			list = append(list, k.hits)
		}
	}
	slices.SortStableFunc(list, func(a, b hits) int { return cmp.Compare(a.at, b.at) })
	if fault := overdrawn(&d.rule, list); fault != "" {
		d.rt.Fatalf("rule %+v: %s", d.rule, fault)
	}
}

// end advances the clock to the end that the counter reports, and checks that no
// hit is left.
func (d *dialogue) end() {
	d.rule.Weight = 0
	if d.rule.Method == store.Base {
		d.now += 2 * store.Day * 1000 // its answer reports only one of its windows
	} else {
		var a store.Answers
		if err := d.r.Evaluate(context.Background(), d.plan(store.Peek), &a); err != nil {
			d.rt.Fatal(err)
		}
		d.now += a.Sets[0].Reset
	}
	var a store.Answers
	if err := d.r.Evaluate(context.Background(), d.plan(store.Peek), &a); err != nil {
		d.rt.Fatal(err)
	}
	if a.Sets[0].Hits != 0 {
		d.rt.Fatalf("rule %+v: %d hits are left at its end", d.rule, a.Sets[0].Hits)
	}
}
