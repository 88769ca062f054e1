package rescue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/koalagate/koalagate/internal/store"
)

// TestMarkedRulesPassInRescue checks that calls that Redis does not answer pass marked rules,
// whose fail policies do not matter, and that what passes beyond their limits is charged to
// Redis as other hits are.
func TestMarkedRulesPassInRescue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, redis := openFake(t)
		defer s.Close()
		rules := []store.Rule{
			{Subject: []byte("u"), Return: 1, Method: store.Count, Time: 3600, Count: 1, Weight: 1, Marked: true, Lenient: true},
			{Subject: []byte("u"), Return: 2, Method: store.Token, Time: 3600, Count: 2, Burst: 2, Weight: 1, Marked: true},
			{Subject: []byte("u"), Return: 3, Method: store.Base, Time: 3600, Base: 1, Count: 1, Weight: 1, Marked: true},
			{Subject: []byte("u"), Return: 4, Method: store.Leak, Time: 3600, Count: 2, Weight: 1, Marked: true},
			{Subject: []byte("u"), Return: 5, Method: store.Count, Time: 3600, Count: 5, Weight: 1},
		}
		evaluate := func(op store.Op, rules ...store.Rule) *store.Answer {
			var a store.Answers
			if err := s.Evaluate(context.Background(), &store.Plan{Op: op, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: rules}}}, &a); err != nil {
				t.Fatal(err)
			}
			return &a.Sets[0]
		}
		redis.becomes(store.Starved, false, 0)
		for i := range 7 {
			a := evaluate(store.Take, rules...)
			if want := i < 5; (a.Decider < 0) != want || !want && a.Decider != 4 || i >= 2 && len(a.Refusals) != 4 {
				t.Errorf("starved call %d: %+v; want five admitted, and marked from the second and the third on", i+1, a)
			}
		}
		redis.becomes(store.Answered, false, 0)
		time.Sleep(time.Minute)
		for i, want := range []int64{5, 5, 5, 5, 5} {
			if got := evaluate(store.Peek, rules[i]).Hits; got != want {
				t.Errorf("rule %d has %d hits in Redis a minute later; want %d", i+1, got, want)
			}
		}
		if n := s.debts.size.Load(); n != 0 {
			t.Errorf("%d debts are left", n)
		}
	})
}

// TestDebtsRefuseByEnforcedRules checks that no debt makes a marked rule refuse.
func TestDebtsRefuseByEnforcedRules(t *testing.T) {
	marked, enforced := store.Rule{Return: 1, Method: store.Count, Marked: true}, store.Rule{Return: 2, Method: store.Count}
	for name, c := range map[string]struct {
		rules []store.Rule
		want  int // the decider
	}{
		"a marked rule alone":      {[]store.Rule{marked}, -1},
		"an enforced one below it": {[]store.Rule{marked, enforced}, 1},
		"an enforced reporter":     {[]store.Rule{enforced, marked}, 0},
	} {
		a := store.Answer{Decider: -1, Retry: store.Never, Reset: 5}
		refuse(&store.Set{Allows: true, Rules: c.rules}, &a)
		if a.Decider != c.want || c.want >= 0 && (a.Reporter != c.want || a.Retry != 5) {
			t.Errorf("%s: %+v; want rule %d to refuse", name, a, c.want)
		}
	}
}
