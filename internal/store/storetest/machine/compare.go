package machine

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"testing"
	"time"
	_ "time/tzdata" // so that dialogues do not depend on the zones of the machine

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/koalagate/koalagate/internal/store"
)

// Dialogues sets the number of dialogues that rapid makes in the rest of the
// test. An explicit -rapid.checks overrides it.
func Dialogues(t *testing.T, n int) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	if checks.Value.String() != checks.DefValue {
		return
	}
	if err := flag.Set(checks.Name, strconv.Itoa(n)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set(checks.Name, checks.DefValue) }) // the default is valid
}

// Parts makes n dialogues in parts, which run at the same time: a server would have nothing to
// do between the calls of one. An explicit -rapid.checks sets the number of each part.
func Parts(t *testing.T, n int, part func(t *testing.T, name string)) {
	t.Helper()
	const parts = 4
	Dialogues(t, (n+parts-1)/parts)
	for i := range parts {
		name := "part " + strconv.Itoa(i+1)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part(t, name)
		})
	}
}

// Seed makes rapid draw the same dialogues at every run of the test. An explicit
// -rapid.seed overrides it.
func Seed(t *testing.T, seed int) {
	t.Helper()
	flagged := flag.Lookup("rapid.seed")
	if flagged.Value.String() != flagged.DefValue {
		return
	}
	if err := flag.Set(flagged.Name, strconv.Itoa(seed)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set(flagged.Name, flagged.DefValue) }) // the default is valid
}

// Compare evaluates random dialogues on stores and on the model. open returns a store for
// one dialogue and a function that ends it. Few subjects, rules and instants make
// plans meet often; thresholds change as reloads change them.
func Compare(t *testing.T, open func() (s store.Store, end func())) {
	t.Helper()
	zones := Zones(t, "Asia/Shanghai", "America/New_York", "America/Havana", "Australia/Lord_Howe", "UTC")
	rapid.Check(t, func(rt *rapid.T) {
		s, end := open()
		defer end()
		d := dialogue{T: rt, store: s, model: NewModel(), zone: rapid.SampledFrom(zones).Draw(rt, "zone")}
		// A night in which clocks go back, or forward, in one of the zones.
		d.now = rapid.SampledFrom([]int64{1_793_505_600_000, 1_772_953_200_000, 1_774_681_200_000}).Draw(rt, "night")
		d.now += rapid.Int64Range(-90_000_000, 90_000_000).Draw(rt, "begin")
		for d.step = range rapid.IntRange(1, 24).Draw(rt, "steps") {
			d.now += Move.Draw(rt, "move")
			p := d.next()
			d.evaluate(p)
			if p.Op == store.Take && d.got.Sets[0].Decider >= 0 {
				d.evaluate(p) // the store may refuse this one from memory
			}
			if len(d.waiting) > 0 && rapid.IntRange(0, 2).Draw(rt, "cancel") == 0 {
				d.cancel()
			}
		}
	})
}

// dialogue is random plans, each evaluated by a store and by the model.
type dialogue struct {
	*rapid.T
	store   store.Store
	model   *Model
	zone    *time.Location
	now     int64
	step    int
	got     store.Answers
	past    []*store.Plan
	waiting []waiting
}

// waiting is a take that waits for its turn.
type waiting struct {
	plan  *store.Plan
	undo  any
	taken []Taken
}

// next draws a plan: a new one, or one of before, or a similar one.
func (d *dialogue) next() *store.Plan {
	p := Plan(d.T, d.now, d.zone)
	switch again := rapid.SampledFrom([]int{0, 0, 1, 1, 1, 1, 2, 5, -1}).Draw(d.T, "again"); { // callers repeat calls
	case again > 0 && again <= len(d.past):
		before := d.past[len(d.past)-again]
		return &store.Plan{Op: before.Op, Now: d.now, Zone: d.zone, Patience: before.Patience, Sets: before.Sets}
	case again < 0 && len(d.past) > 0: // … or make similar ones
		p = elsewhere(d.T, d.past[len(d.past)-1], d.now)
	}
	d.past = append(d.past, p)
	return p
}

// evaluate evaluates the plan on both, and compares their answers.
func (d *dialogue) evaluate(p *store.Plan) {
	if err := d.store.Evaluate(context.Background(), p, &d.got); err != nil {
		d.Fatalf("step %d: %s: %v", d.step, Describe(p), err)
	}
	want := d.model.Evaluate(p)
	if !Alike(want, d.got.Sets) {
		d.Fatalf("step %d: %s: the store differs from the model (-model +store):\n%s", d.step, Describe(p), cmp.Diff(want, Normalize(&d.got).Sets))
	}
	if d.got.Wait != d.model.Wait || d.got.Wait > 0 && d.got.Waiter != d.model.Waiter || (d.got.Undo != nil) != (d.model.Taken != nil) {
		d.Fatalf("step %d: %s: the store answers a wait of %d ms of rule %d, and Undo %v; the model %d ms of rule %d", d.step, Describe(p), d.got.Wait, d.got.Waiter, d.got.Undo, d.model.Wait, d.model.Waiter)
	}
	if d.got.Undo != nil && d.got.Receipt == "" {
		d.waiting = append(d.waiting, waiting{p, d.got.Undo, d.model.Taken})
	}
}

// cancel cancels one of the takes that wait.
func (d *dialogue) cancel() {
	i := rapid.IntRange(0, len(d.waiting)-1).Draw(d.T, "who")
	w := d.waiting[i]
	d.waiting = append(d.waiting[:i], d.waiting[i+1:]...)
	p := *w.plan
	p.Now = d.now
	if err := d.store.Cancel(context.Background(), &p, &store.Answers{Undo: w.undo}); err != nil {
		d.Fatalf("step %d: cancel %s: %v", d.step, Describe(&p), err)
	}
	d.model.Cancel(w.taken, d.now)
}

// Alike reports whether answers are equal. cmp.Diff is slow, and only for
// messages.
func Alike(want, got []store.Answer) bool {
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		w, g := want[i], got[i]
		if fmt.Sprint(w.Refusals) != fmt.Sprint(g.Refusals) {
			return false
		}
		w.Refusals, g.Refusals = nil, nil
		if fmt.Sprint(w) != fmt.Sprint(g) {
			return false
		}
	}
	return true
}

// Normalize replaces empty lists of refusals by nil and returns a.
func Normalize(a *store.Answers) *store.Answers {
	for i := range a.Sets {
		if len(a.Sets[i].Refusals) == 0 {
			a.Sets[i].Refusals = nil
		}
	}
	return a
}
