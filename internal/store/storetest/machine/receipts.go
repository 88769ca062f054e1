package machine

import (
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/koalagate/koalagate/internal/store"
)

// CompareReceipts is Compare for plans whose rules settle: their receipts are settled and
// renewed late, twice, out of order or never, and takes are cancelled.
func CompareReceipts(t *testing.T, open func() (s store.Store, end func())) {
	t.Helper()
	zones := Zones(t, "Asia/Shanghai", "America/Havana", "UTC")
	rapid.Check(t, func(rt *rapid.T) {
		s, end := open()
		defer end()
		d := dialogue{T: rt, store: s, model: NewModel(), zone: rapid.SampledFrom(zones).Draw(rt, "zone")}
		d.now = 1_780_286_400_000 + rapid.Int64Range(0, 90_000_000).Draw(rt, "begin")
		var kept []given
		for d.step = range rapid.IntRange(1, 30).Draw(rt, "steps") {
			d.now += moveSettling.Draw(rt, "move")
			if len(kept) > 0 && rapid.IntRange(0, 2).Draw(rt, "what") == 0 {
				kept[rapid.IntRange(0, len(kept)-1).Draw(rt, "which")].use(&d)
				continue
			}
			p := d.settling()
			d.evaluate(p)
			if (d.got.Receipt != "") != (d.model.Receipt != nil) {
				d.Fatalf("step %d: %s: the store answers the receipt %q, and the model %+v", d.step, Describe(p), d.got.Receipt, d.model.Receipt)
			}
			if d.model.Receipt != nil {
				kept = append(kept, given{p, d.got.Receipt, d.got.Undo, d.model.Receipt, d.model.Taken})
			}
		}
	})
}

// moveSettling is how the clock moves between two steps. It does not step back: how long
// stores remember what has ended differs.
var moveSettling = rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 50), rapid.Int64Range(0, 5000), rapid.Int64Range(0, 4_000_000))

// given is a take with a receipt.
type given struct {
	plan    *store.Plan
	receipt string
	undo    any
	model   *Receipt
	taken   []Taken
}

// use settles or renews the receipt, or cancels the take, and compares the results.
func (g *given) use(d *dialogue) {
	ctx := context.Background()
	switch rapid.IntRange(0, 5).Draw(d.T, "how") {
	case 0:
		p := *g.plan
		p.Now = d.now
		if err := d.store.Cancel(ctx, &p, &store.Answers{Undo: g.undo, Receipt: g.receipt}); err != nil {
			d.Fatalf("step %d: cancel %s: %v", d.step, Describe(&p), err)
		}
		if !g.model.spent {
			g.model.spent = true
			d.model.Cancel(g.taken, d.now)
		}
	case 1:
		got, err := d.store.Renew(ctx, &store.Renewal{Receipt: g.receipt, Now: d.now})
		if want := d.model.Renew(g.model, d.now); err != nil || got.Known != want {
			d.Fatalf("step %d: renew %s: %+v, %v; want %v", d.step, Describe(g.plan), got, err, want)
		}
	default:
		use := store.Use{
			Concerns: rapid.IntRange(0, 9).Draw(d.T, "concerns") > 0, Given: rapid.IntRange(0, 4).Draw(d.T, "given") > 0,
			Hits: weights.Draw(d.T, "used"), Charge: rapid.Bool().Draw(d.T, "charge"),
		}
		got, err := d.store.Settle(ctx, &store.Settlement{Receipt: g.receipt, Now: d.now, Zone: d.zone, Judge: alike(use)})
		want := d.model.Settle(g.model, use, &store.Plan{Op: store.Update, Now: d.now, Zone: d.zone})
		if err != nil || got.Known != want {
			d.Fatalf("step %d: settle %s by %+v: %+v, %v; want %v", d.step, Describe(g.plan), use, got, err, want)
		}
	}
}

// once returns the rules without repeated ones: a rule matches a set of parameters once.
func once(list []store.Rule) []store.Rule {
	var rules []store.Rule
	for i := range list {
		if !slices.ContainsFunc(rules, func(r store.Rule) bool { return r.Return == list[i].Return }) {
			rules = append(rules, list[i])
		}
	}
	return rules
}

// alike judges every part alike.
type alike store.Use

// Judge returns the use that all parts have.
func (a alike) Judge(int64, store.Method) store.Use { return store.Use(a) }

// settling draws a plan whose rules mostly settle.
func (d *dialogue) settling() *store.Plan {
	p := d.next()
	for i := range p.Sets {
		p.Sets[i].Rules = once(p.Sets[i].Rules)
		for j := range p.Sets[i].Rules {
			r := &p.Sets[i].Rules[j]
			n := rapid.IntRange(0, 7).Draw(d.T, "kind")
			switch {
			case n == 0 || n <= 2 && r.Method == store.Base:
				*r = store.Rule{Subject: r.Subject, Return: r.Return, Method: store.Hold, Time: max(r.Time, 1), Count: r.Count, Weight: r.Weight, Shadow: r.Shadow, Marked: r.Marked, Allows: r.Allows}
			case r.Method == store.Base || r.Method == store.Hold:
			case n <= 4:
				r.Settle = []int64{1, 60, 7200}[n%3]
			case n <= 6:
				r.Settle, r.Outcome, r.Wait = 600, true, 0
			}
		}
	}
	return Unify(p)
}
