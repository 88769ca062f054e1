package store_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"
	_ "time/tzdata" // the dialogues do not depend on the machine's zones

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// long asks for the tests in their long form, as `make verify` runs them.
var long = flag.Bool("long", false, "run many more dialogues, and with more callers")

// dialogues has rapid make so many dialogues, or the second number in the long
// form. An explicit -rapid.checks holds.
func dialogues(t *testing.T, short, longer int) {
	t.Helper()
	n := short
	if *long {
		n = longer
	}
	checks := flag.Lookup("rapid.checks")
	if checks.Value.String() != checks.DefValue {
		return
	}
	if err := flag.Set(checks.Name, strconv.Itoa(n)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set(checks.Name, checks.DefValue) }) // it was good before
}

// TestMemoryAnswersAsTheModel puts the same plans to the in-process store and
// to the model, and compares every answer.
func TestMemoryAnswersAsTheModel(t *testing.T) {
	dialogues(t, 2000, 100_000)
	compare(t, func() (store.Store, func()) {
		m := store.NewMemory(store.MemoryOptions{})
		return m, m.Close
	})
}

// TestRedisAnswersAsTheModel does the same with Redis. The plans bring their
// own clock, and Redis drops keys by its own: it is told to linger, so that a
// busy machine makes no difference.
func TestRedisAnswersAsTheModel(t *testing.T) {
	server := storetest.StartServer(t)
	n := 0
	storetest.InWays(t, storetest.Ways(*long), func(t *testing.T, way storetest.Way) {
		dialogues(t, 100, way.Of(10_000))
		told := int64(0)
		o := store.RedisOptions{URL: server.URL(), Budget: time.Minute, Linger: time.Hour, Refusals: 1000}
		way.Set(&o)
		open := func() (store.Store, func()) {
			n++
			o.Prefix = fmt.Sprintf("m%d", n)
			r, err := store.NewRedis(o)
			if err != nil {
				t.Fatal(err)
			}
			return r, func() {
				told += r.Calls().Remembered
				server.CheckExpiries(t, o.Prefix)
				if err := r.Clear(context.Background()); err != nil {
					t.Error(err)
				}
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		compare(t, open)
		for more := 0; o.Refusals >= 0 && told == 0 && more < 10 && !t.Failed(); more++ {
			compare(t, open) // dialogues at random may have had none
		}
		if (told > 0) != (o.Refusals >= 0) {
			t.Errorf("%d refusals were told from memory", told)
		}
	})
	t.Run("on and off in turn", func(t *testing.T) {
		dialogues(t, 50, 10_000)
		in := server.OpenInTurn(t, func(o *store.RedisOptions) { o.Linger = time.Hour })
		compare(t, func() (store.Store, func()) {
			return in, func() {
				server.CheckExpiries(t, in.Prefix)
				if err := in.Clear(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	})
}

// compare has dialogues with a store and with the model. Few subjects, rules
// and instants make them meet often; thresholds change as reloads change them.
func compare(t *testing.T, open func() (s store.Store, end func())) {
	zones := zones(t, "Asia/Shanghai", "America/New_York", "America/Havana", "Australia/Lord_Howe", "UTC")
	rapid.Check(t, func(rt *rapid.T) {
		model := newModel()
		s, end := open()
		defer end()
		zone := rapid.SampledFrom(zones).Draw(rt, "zone")
		// A night in which clocks go back, or forward, in one of the zones.
		now := rapid.SampledFrom([]int64{1_793_505_600_000, 1_772_953_200_000, 1_774_681_200_000}).Draw(rt, "night")
		now += rapid.Int64Range(-90_000_000, 90_000_000).Draw(rt, "begin")
		var got store.Answers
		var past []*store.Plan
		for i := range rapid.IntRange(1, 24).Draw(rt, "steps") {
			now += move.Draw(rt, "move")
			p := plan(rt, now, zone)
			switch again := rapid.SampledFrom([]int{0, 0, 1, 1, 1, 1, 2, 5, -1}).Draw(rt, "again"); { // callers repeat themselves
			case again > 0 && again <= len(past):
				before := past[len(past)-again]
				p = &store.Plan{Op: before.Op, Now: now, Zone: zone, Sets: before.Sets}
			case again < 0 && len(past) > 0: // … or nearly so
				p = elsewhere(rt, past[len(past)-1], now)
				past = append(past, p)
			default:
				past = append(past, p)
			}
			ask := func() {
				if err := s.Evaluate(context.Background(), p, &got); err != nil {
					rt.Fatalf("step %d: %s: %v", i, describe(p), err)
				}
				want := model.evaluate(p)
				if !alike(want, got.Sets) {
					rt.Fatalf("step %d: %s: the store differs from the model (-model +store):\n%s", i, describe(p), cmp.Diff(want, settle(&got).Sets))
				}
			}
			ask()
			if p.Op == store.Take && got.Sets[0].Decider >= 0 {
				ask() // that may be refused from memory
			}
		}
	})
}

// move is how the clock goes between two steps of a dialogue.
var move = rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 50), rapid.Int64Range(0, 5000),
	rapid.Int64Range(-4000, 0), rapid.Int64Range(0, 40_000_000), rapid.Int64Range(-3_000_000, 0))

// alike compares answers; cmp.Diff takes its time, and is for people.
func alike(want, got []store.Answer) bool {
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

// settle makes an empty list of refusals and none the same.
func settle(a *store.Answers) *store.Answers {
	for i := range a.Sets {
		if len(a.Sets[i].Refusals) == 0 {
			a.Sets[i].Refusals = nil
		}
	}
	return a
}

func zones(t *testing.T, names ...string) []*time.Location {
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

func plan(rt *rapid.T, now int64, zone *time.Location) *store.Plan {
	p := &store.Plan{
		Op:   rapid.SampledFrom([]store.Op{store.Take, store.Take, store.Take, store.Browse, store.Update, store.Refund, store.Complete, store.CompleteTake, store.Peek, store.Reset}).Draw(rt, "op"),
		Now:  now,
		Zone: zone,
	}
	for range rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(rt, "sets") {
		kind := rapid.IntRange(0, 15).Draw(rt, "kind")
		set := store.Set{Allows: kind != 1, Refund: p.Op == store.Take && kind == 2}
		for range rapid.SampledFrom([]int{1, 1, 2, 3, 0}).Draw(rt, "rules") {
			set.Rules = append(set.Rules, rule(rt))
		}
		p.Sets = append(p.Sets, set)
	}
	return p
}

// elsewhere is the plan with one of its rules on the other subject.
func elsewhere(rt *rapid.T, p *store.Plan, now int64) *store.Plan {
	p = &store.Plan{Op: p.Op, Now: now, Zone: p.Zone, Sets: slices.Clone(p.Sets)}
	if rules := slices.Clone(p.Sets[0].Rules); len(rules) > 0 {
		at := rapid.IntRange(0, len(rules)-1).Draw(rt, "elsewhere")
		rules[at].Subject = []byte{1 - rules[at].Subject[0]}
		p.Sets[0].Rules = rules
	}
	return p
}

// rule draws a rule in three draws: many small draws take most of the time of
// ten thousand dialogues.
func rule(rt *rapid.T) store.Rule {
	r := rapid.SampledFrom(shapes).Draw(rt, "shape")
	r.Weight = weights.Draw(rt, "weight")
	n := rapid.IntRange(0, 2*2*6*6-1).Draw(rt, "rest")
	r.Subject, n = []byte{byte(n % 2)}, n/2
	r.Return, n = int64(1+n%2), n/2
	r.Shadow, n = n%6 == 5, n/6
	r.Allows = n%6 == 5
	return r
}

var weights = rapid.OneOf(rapid.Just(int64(1)), rapid.Int64Range(0, 9), rapid.Just(int64(store.MaxWeight)))

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
	}
	return list
}()

func describe(p *store.Plan) string { return fmt.Sprintf("%+v", *p) }
