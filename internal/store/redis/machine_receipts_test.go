package redis_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/store/storetest/machine"
)

// TestReceiptsAnswerAsInProcess compares the stores in random dialogues with receipts
// that are settled late, twice, never and out of order, renewed and cancelled.
func TestReceiptsAnswerAsInProcess(t *testing.T) {
	server := storetest.StartServer(t)
	zones := machine.Zones(t, "Asia/Shanghai", "America/New_York")
	n := 0
	storetest.InWays(t, storetest.Ways(*long), func(t *testing.T, way storetest.Way) {
		dialogues(t, 100, way.Of(10_000))
		if !*long {
			sameDialogues(t)
		}
		rapid.Check(t, func(rt *rapid.T) {
			n++
			o := redis.Options{URL: server.URL(), Prefix: fmt.Sprintf("r%d", n), Budget: time.Minute, Linger: time.Hour}
			way.Set(&o)
			r, err := redis.Open(o)
			if err != nil {
				rt.Fatal(err)
			}
			local := memory.New(memory.Options{})
			defer local.Close()
			d := receiptDialogue{T: rt, redis: r, memory: local, zone: rapid.SampledFrom(zones).Draw(rt, "zone"), now: now}
			d.converse()
			server.CheckExpiries(t, o.Prefix)
			if err := r.Clear(context.Background()); err != nil {
				rt.Error(err)
			}
			if err := r.Close(); err != nil {
				rt.Error(err)
			}
		})
	})
}

// sameDialogues makes rapid draw the same dialogues in each run: the long form draws
// others.
func sameDialogues(t *testing.T) {
	t.Helper()
	seed := flag.Lookup("rapid.seed")
	if seed.Value.String() != seed.DefValue {
		return
	}
	if err := flag.Set(seed.Name, "1"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set(seed.Name, seed.DefValue) }) // the default is valid
}

// forward is how the clock moves: what a store has dropped does not come back with a
// clock that steps back.
var forward = rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 50), rapid.Int64Range(0, 5000), rapid.Int64Range(0, 40_000_000))

// receiptDialogue is random plans and operations on their receipts, each carried out by
// both stores.
type receiptDialogue struct {
	*rapid.T
	redis  *redis.Store
	memory *memory.Store
	zone   *time.Location
	now    int64
	given  []givenReceipt
}

// givenReceipt is a take with the answers of both stores.
type givenReceipt struct {
	plan          *store.Plan
	redis, memory store.Answers
}

// Judge is the same for all rules of a dialogue but a few, which are gone.
func (d *receiptDialogue) judge() *storetest.Judge {
	j := &storetest.Judge{Use: store.Use{Concerns: true}}
	if hits := rapid.SampledFrom([]int64{-1, 0, 0, 1, 2, 5, 30, store.MaxWeight}).Draw(d.T, "hits"); hits >= 0 {
		j.Given, j.Hits = true, hits
	}
	j.Charge = rapid.Bool().Draw(d.T, "charge")
	if rapid.IntRange(0, 9).Draw(d.T, "gone") == 0 {
		j.Gone = []int64{1}
	}
	return j
}

func (d *receiptDialogue) converse() {
	rules := map[string]store.Rule{}
	for range rapid.IntRange(1, 40).Draw(d.T, "steps") {
		d.now += forward.Draw(d.T, "move")
		if len(d.given) > 0 && rapid.IntRange(0, 2).Draw(d.T, "settles") > 0 {
			d.operate()
			continue
		}
		p := machine.Plan(d.T, d.now, d.zone)
		for i := range p.Sets {
			var once []store.Rule // a rule matches a set once
			for _, r := range p.Sets[i].Rules {
				if !slices.ContainsFunc(once, func(o store.Rule) bool { return o.Return == r.Return && string(o.Subject) == string(r.Subject) }) {
					d.define(rules, &r)
					once = append(once, r)
				}
			}
			p.Sets[i].Rules = once
		}
		d.take(p)
	}
}

// define makes the rule one with a receipt. Each counter has one rule in the whole
// dialogue: settlements use the thresholds of the take.
func (d *receiptDialogue) define(rules map[string]store.Rule, r *store.Rule) {
	key := fmt.Sprintf("%s %d", r.Subject, r.Return)
	if known, ok := rules[key]; ok {
		known.Weight = r.Weight
		*r = known
		return
	}
	kind := rapid.IntRange(0, 5).Draw(d.T, "kind")
	switch {
	case kind == 0 || r.Method == store.Base:
		*r = store.Rule{Subject: r.Subject, Return: r.Return, Method: store.Hold, Time: r.Time, Count: max(r.Count, 1), Weight: r.Weight, Shadow: r.Shadow}
		r.Time = max(r.Time, 1)
	case kind == 1:
		r.Settle, r.Outcome, r.Wait = 600, true, 0
	case kind < 5:
		r.Settle = rapid.SampledFrom([]int64{1, 60, 7200}).Draw(d.T, "settle")
	}
	rules[key] = *r
}

func (d *receiptDialogue) take(p *store.Plan) {
	g := givenReceipt{plan: p}
	if err := d.memory.Evaluate(context.Background(), p, &g.memory); err != nil {
		d.Fatalf("%s: %v", machine.Describe(p), err)
	}
	if err := d.redis.Evaluate(context.Background(), p, &g.redis); err != nil {
		d.Fatalf("%s: %v", machine.Describe(p), err)
	}
	if !machine.Alike(g.memory.Sets, g.redis.Sets) || g.memory.Wait != g.redis.Wait || (g.memory.Receipt == "") != (g.redis.Receipt == "") {
		d.Fatalf("%s: redis differs from memory (-memory +redis): %s", machine.Describe(p), cmp.Diff(machine.Normalize(&g.memory), machine.Normalize(&g.redis)))
	}
	d.Logf("%s: %+v", machine.Describe(p), g.redis)
	if g.redis.Undo != nil {
		d.given = append(d.given, g)
	}
}

// operate settles, renews or cancels one of the takes, whose receipt stays among those
// that are used again.
func (d *receiptDialogue) operate() {
	g := &d.given[rapid.IntRange(0, len(d.given)-1).Draw(d.T, "which")]
	ctx := context.Background()
	var want, got store.Settled
	var err, fault error
	what := rapid.SampledFrom([]string{"settle", "settle", "settle", "renew", "cancel"}).Draw(d.T, "operation")
	switch j := d.judge(); what {
	case "settle":
		want, fault = d.memory.Settle(ctx, &store.Settlement{Receipt: g.memory.Receipt, Now: d.now, Zone: d.zone, Judge: j})
		got, err = d.redis.Settle(ctx, &store.Settlement{Receipt: g.redis.Receipt, Now: d.now, Zone: d.zone, Judge: j})
	case "renew":
		want, fault = d.memory.Renew(ctx, &store.Renewal{Receipt: g.memory.Receipt, Now: d.now})
		got, err = d.redis.Renew(ctx, &store.Renewal{Receipt: g.redis.Receipt, Now: d.now})
		g.memory.Undo, g.redis.Undo = nil, nil // who renews has the answer
	case "cancel":
		p, of, in := *g.plan, g.memory, g.redis
		p.Now = d.now
		fault = d.memory.Cancel(ctx, &p, &of)
		err = d.redis.Cancel(ctx, &p, &in)
		g.memory.Undo, g.redis.Undo = nil, nil
	}
	d.Logf("%s of %s at %d: %+v", what, g.redis.Receipt, d.now, got)
	if want != got || err != nil || fault != nil {
		d.Fatalf("%s of a receipt of %s at %d: redis answers %+v, %v; memory %+v, %v", what, machine.Describe(g.plan), d.now, got, err, want, fault)
	}
}
