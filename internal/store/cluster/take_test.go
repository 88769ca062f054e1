package cluster_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/cluster"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/rescue"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/store/storetest/machine"
)

// about returns a copy of a rule for a subject, with weight 1.
func about(subject string, r store.Rule) store.Rule {
	r.Subject, r.Weight = []byte(subject), 1
	return r
}

// answer evaluates a plan at a fixed instant.
func answer(t *testing.T, s store.Store, op store.Op, sets ...store.Set) store.Answers {
	t.Helper()
	var a store.Answers
	p := &store.Plan{Op: op, Now: 1_793_505_600_000, Zone: time.UTC, Sets: sets}
	if err := s.Evaluate(context.Background(), p, &a); err != nil {
		t.Fatalf("%s: %v", machine.Describe(p), err)
	}
	return a
}

func allows(rules ...store.Rule) store.Set { return store.Set{Allows: true, Rules: rules} }

// TestBrowseWaitsForTheRulesItReaches browses over slots in which a rule decides and allows:
// those above it may wait, in its slot too, and those below it do not.
func TestBrowseWaitsForTheRulesItReaches(t *testing.T) {
	r := storetest.StartCluster(t, 3, false).Open(t, redis.Options{Linger: time.Hour})
	decider := about("one", store.Rule{Return: 1, Method: store.Count, Time: store.Day, Count: 1, Allows: true})
	queue := store.Rule{Return: 2, Method: store.Token, Time: 60, Count: 6, Burst: 6, Wait: 60_000}
	same, other := about("one", queue), about("other", queue)
	answer(t, r, store.Take, allows(decider))
	for _, rule := range []store.Rule{same, other} {
		rule.Weight = 6
		answer(t, r, store.Take, allows(rule))
	}
	for name, c := range map[string]struct {
		sets   []store.Set
		wait   int64
		waiter [2]int
	}{
		"below the decider":           {[]store.Set{allows(decider, other)}, 0, [2]int{}},
		"above it":                    {[]store.Set{allows(other, decider)}, 10_000, [2]int{}},
		"above it, in its slot":       {[]store.Set{allows(same, decider, other)}, 10_000, [2]int{}},
		"in another set, in its slot": {[]store.Set{allows(decider, other), allows(same)}, 10_000, [2]int{1, 0}},
		"in another set and slot":     {[]store.Set{allows(decider), allows(other)}, 10_000, [2]int{1, 0}},
	} {
		p := &store.Plan{Op: store.Browse, Now: 1_793_505_600_000, Zone: time.UTC, Patience: 60_000, Sets: c.sets}
		var a store.Answers
		if err := r.Evaluate(context.Background(), p, &a); err != nil {
			t.Fatal(err)
		}
		if !p.Allowed(&a) || a.Wait != c.wait || a.Waiter != c.waiter {
			t.Errorf("%s: a wait of %d ms by rule %v; want %d ms by rule %v", name, a.Wait, a.Waiter, c.wait, c.waiter)
		}
	}
}

// TestGiveBackKeepsItsSubjects overwrites the subjects of a plan as soon as it is
// refused, as the engine does, while hits are given back. They must be given back
// to the original subjects only.
func TestGiveBackKeepsItsSubjects(t *testing.T) {
	r := storetest.StartCluster(t, 3, false).Open(t, redis.Options{})
	rules := []store.Rule{
		{Return: 1, Method: store.Count, Time: store.Day, Count: 100},
		{Return: 2, Method: store.Token, Time: 3600, Count: 1, Burst: 100},
		{Return: 3, Method: store.Leak, Time: 3600, Count: 100},
	}
	full := about("full", store.Rule{Return: 4, Method: store.Count, Time: 3600, Count: 1})
	answer(t, r, store.Take, allows(full))
	for i := range 20 {
		mine, others := fmt.Sprintf("mine-%02d", i), fmt.Sprintf("other-%02d", i)
		var set store.Set
		for _, rule := range rules {
			answer(t, r, store.Take, allows(about(others, rule)))
			set.Rules = append(set.Rules, about(mine, rule))
		}
		set.Allows, set.Rules = true, append(set.Rules, full)
		if a := answer(t, r, store.Take, set); a.Sets[0].Decider != len(rules) {
			t.Fatalf("rule %d refused; want rule %d", a.Sets[0].Decider, len(rules))
		}
		for j := range rules {
			copy(set.Rules[j].Subject, others)
		}
		r.AwaitUndone()
		for _, rule := range rules {
			for subject, want := range map[string]int64{mine: 0, others: 1} {
				if got := answer(t, r, store.Peek, allows(about(subject, rule))).Sets[0].Hits; got != want {
					t.Errorf("%s, rule %d: %d hits are counted; want %d", subject, rule.Return, got, want)
				}
			}
		}
	}
}

// TestFailedGiveBacksAreCounted drops a give-back because too many are running, and
// lets another fail at a killed node.
func TestFailedGiveBacksAreCounted(t *testing.T) {
	c := storetest.StartCluster(t, 3, false, "--cluster-require-full-coverage", "no")
	r := c.Open(t, redis.Options{})
	rule := store.Rule{Return: 1, Method: store.Count, Time: 3600, Count: 1}
	full, other := about("full", rule), about("other", rule)
	want := func(n int64) {
		t.Helper()
		r.AwaitUndone()
		if got := r.Calls().Stranded; got != n {
			t.Fatalf("%d parts are stranded; want %d", got, n)
		}
	}
	answer(t, r, store.Take, allows(full))
	answer(t, r, store.Take, allows(full, other))
	want(0)
	end := r.FillUndoing()
	answer(t, r, store.Take, allows(full, other))
	want(1)
	end()
	if hits := answer(t, r, store.Peek, allows(other)).Sets[0].Hits; hits != 1 {
		t.Errorf("%d hits are counted; want the one that was not given back", hits)
	}
	third := about("third", rule)
	taken, err := r.TakePart(context.Background(), &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{allows(third)}})
	if err != nil || taken == nil {
		t.Fatalf("%v, %v", taken, err)
	}
	c.Owner(cluster.SlotOf(cluster.Key("koala", "third"))).Kill()
	r.GiveBack(taken)
	want(2)
}

// TestRefusalStandsAlthoughAnotherNodeIsDown takes on two nodes, of which one
// refuses and the other is down. The call is refused whatever the other would
// answer, and the refusal seeds the in-process store.
func TestRefusalStandsAlthoughAnotherNodeIsDown(t *testing.T) {
	c := storetest.StartCluster(t, 3, false, "--cluster-require-full-coverage", "no")
	s := storetest.OpenRescue(t, redis.Options{URL: c.URL(), Budget: time.Minute}, rescue.Options{})
	rule := store.Rule{Return: 1, Method: store.Count, Time: 3600, Count: 1}
	up, down := c.Nodes[0], c.Nodes[1]
	on := func(n *storetest.Node) (subject string) {
		for i := 0; ; i++ {
			if subject = fmt.Sprint("s", i); c.Owner(cluster.SlotOf(cluster.Key("koala", subject))) == n {
				return subject
			}
		}
	}
	full, gone := about(on(up), rule), about(on(down), rule)
	answer(t, s, store.Take, allows(full))
	down.Kill()
	back := allows(gone)
	back.Refund = true
	open, hidden := about(on(up), rule), gone
	open.Return, open.Allows, hidden.Allows = 2, true, true
	for _, test := range []struct {
		name string
		op   store.Op
		sets []store.Set
		of   int  // index of the set that is refused
		down bool // the answer depends on the node that is down
	}{
		{"a set over both", store.Take, []store.Set{allows(gone, full)}, 0, false},
		{"one set per node", store.Take, []store.Set{allows(gone), allows(full)}, 1, false},
		{"complete", store.CompleteTake, []store.Set{allows(full, gone)}, 0, false},
		{"a refund on the node that is down", store.Take, []store.Set{back, allows(full)}, 1, false},
		{"a refund, and a set over both", store.Take, []store.Set{allows(gone, full), back}, 0, false},
		{"a rule that allows and is not used up", store.Take, []store.Set{allows(open, gone, full)}, 0, false},
		{"a rule that allows, below the refusal", store.Take, []store.Set{allows(full, hidden)}, 0, false},
		{"a rule that allows, above the refusal", store.Take, []store.Set{allows(hidden, full)}, 0, true},
		{"complete, with a rule that allows above", store.CompleteTake, []store.Set{allows(hidden, full), back}, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := answer(t, s, test.op, test.sets...)
			if got := &a.Sets[test.of]; a.Degraded != test.down || !test.down && (got.Decider < 0 || got.Retry <= 0) {
				t.Errorf("the answer is %+v; want a refusal by Redis, or by the in-process store: %v", a, test.down)
			}
		})
	}
	up.Kill()
	if a := answer(t, s, store.Take, allows(full)); !a.Degraded || a.Sets[0].Decider < 0 {
		t.Errorf("in process the answer is %+v; want a refusal", a)
	}
}

// TestCloseWaitsForGiveBacks closes a store while takes are refused and partly given
// back: Close waits for each give-back, or it never begins.
func TestCloseWaitsForGiveBacks(t *testing.T) {
	c := storetest.StartCluster(t, 3, false)
	rule := store.Rule{Return: 1, Method: store.Count, Time: 3600, Count: 1}
	for range 5 {
		r, err := cluster.Open(redis.Options{URL: c.URL(), Budget: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		answer(t, r, store.Update, allows(about("full", rule)))
		var callers, busy sync.WaitGroup
		for i := range 8 {
			busy.Add(1)
			callers.Go(func() {
				set := allows(about("full", rule), about(fmt.Sprint("other-", i), rule))
				n := 0
				for r.Evaluate(context.Background(), &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{set}}, new(store.Answers)) == nil {
					if n++; n == 20 {
						busy.Done()
					}
				}
				if n < 20 {
					t.Errorf("a caller was answered %d times before the store was closed; want 20 or more", n)
					busy.Done()
				}
			})
		}
		busy.Wait()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		callers.Wait()
		if n := r.Undoing(); n != 0 {
			t.Errorf("%d parts are still being given back after Close", n)
		}
	}
}
