package cluster_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/cluster"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// hitsOf returns the hits of a rule, once everything is given back.
func hitsOf(t *testing.T, r *cluster.Store, rule store.Rule) int64 {
	t.Helper()
	r.AwaitUndone()
	return answer(t, r, store.Peek, allows(rule)).Sets[0].Hits
}

// TestOverdraftsOverSlots refuses takes in one slot: overdrafts in other slots stay,
// except those below the decider.
func TestOverdraftsOverSlots(t *testing.T) {
	r := storetest.StartCluster(t, 3, false).Open(t, redis.Options{})
	full := about("full", store.Rule{Return: 1, Method: store.Count, Time: 3600})
	charged := func(subject string) store.Rule {
		return about(subject, store.Rule{Return: 2, Method: store.Count, Time: 3600, Count: 5, Overdraft: true})
	}
	plain := about("plain", store.Rule{Return: 3, Method: store.Count, Time: 3600, Count: 5})
	allowing := full
	allowing.Allows = true
	for name, c := range map[string]struct {
		sets []store.Set
		want map[string]int64
	}{
		"above the decider":     {[]store.Set{allows(charged("a"), full)}, map[string]int64{"a": 1}},
		"below the decider":     {[]store.Set{allows(full, charged("b"))}, map[string]int64{"b": 0}},
		"in another set":        {[]store.Set{allows(full), allows(charged("c")), allows(charged("d"), plain)}, map[string]int64{"c": 1, "d": 1}},
		"a set that denies":     {[]store.Set{{Rules: []store.Rule{charged("e"), plain}}, allows(charged("f"))}, map[string]int64{"e": 1, "f": 1}},
		"a decider that allows": {[]store.Set{allows(charged("g"), allowing, charged("h"))}, map[string]int64{"g": 1, "h": 0}},
	} {
		before := hitsOf(t, r, plain)
		answer(t, r, store.Take, c.sets...)
		for subject, want := range c.want {
			if got := hitsOf(t, r, charged(subject)); got != want {
				t.Errorf("%s: %d hits of %s, want %d", name, got, subject, want)
			}
		}
		if got := hitsOf(t, r, plain); got != before {
			t.Errorf("%s: a refused take counted %d hits", name, got-before)
		}
	}
}

// TestLaterSetsSeeWhatStays lets a shadow rule and a rule that allows write an overdraft
// or a ban: a later set of the same step with the same counter is refused.
func TestLaterSetsSeeWhatStays(t *testing.T) {
	r := storetest.StartCluster(t, 3, false).Open(t, redis.Options{})
	overdraft := store.Rule{Return: 1, Method: store.Count, Time: 3600, Count: 5, Overdraft: true}
	ban := store.Rule{Return: 2, Method: store.Count, Time: 3600, Count: 5, Ban: 60}
	other := about("elsewhere", store.Rule{Return: 3, Method: store.Count, Time: 3600, Count: 1000})
	for name, c := range map[string]struct {
		rule   store.Rule
		weight int64 // of the first set
		spend  int64 // before the step
		kind   func(*store.Rule)
	}{
		"overdraft of a shadow rule":        {overdraft, 9, 0, func(r *store.Rule) { r.Shadow = true }},
		"overdraft of a rule that allows":   {overdraft, 9, 0, func(r *store.Rule) { r.Allows = true }},
		"ban by a shadow rule":              {ban, 5, 1, func(r *store.Rule) { r.Shadow = true }},
		"ban by a rule that allows its set": {ban, 5, 1, func(r *store.Rule) { r.Allows = true }},
	} {
		enforced := about(name, c.rule)
		if c.spend > 0 {
			enforced.Weight = c.spend
			answer(t, r, store.Take, allows(enforced))
		}
		lasting := enforced
		lasting.Weight = c.weight
		c.kind(&lasting)
		enforced.Weight = 1
		// Overdrafts below another rule make the take begin with a browse.
		a := answer(t, r, store.Take, allows(lasting), allows(other, enforced))
		if a.Sets[0].Decider >= 0 && !lasting.Allows || a.Sets[1].Decider != 1 {
			t.Errorf("%s: the deciders are %d and %d, want the second set refused by its rule 1", name, a.Sets[0].Decider, a.Sets[1].Decider)
		}
	}
	if got := hitsOf(t, r, other); got != 0 {
		t.Errorf("refused takes counted %d hits elsewhere", got)
	}
}

// TestSetsAreDecidedInOrder takes with several sets in which rules allow, record what they
// refuse, or are below a decider in another slot: each set sees what the sets before it leave,
// and nothing of those behind it.
func TestSetsAreDecidedInOrder(t *testing.T) {
	r := storetest.StartCluster(t, 3, false).Open(t, redis.Options{})
	weighing := func(n int64, r store.Rule) store.Rule {
		r.Weight = n
		return r
	}
	overdraft := func(subject string) store.Rule {
		return about(subject, store.Rule{Return: 1, Method: store.Count, Time: 3600, Count: 5, Overdraft: true, Allows: true})
	}
	ban := func(subject string) store.Rule {
		return about(subject, store.Rule{Return: 2, Method: store.Count, Time: 3600, Count: 5, Ban: 60, Allows: true})
	}
	plain := func(subject string) store.Rule {
		return about(subject, store.Rule{Return: 3, Method: store.Count, Time: 3600, Count: 5})
	}
	other := about("elsewhere", store.Rule{Return: 4, Method: store.Count, Time: 3600, Count: 1000})
	denyingBan := func(subject string) store.Rule {
		return about(subject, store.Rule{Return: 6, Method: store.Count, Time: 3600, Count: 5, Ban: 60})
	}
	full := about("full", store.Rule{Return: 5, Method: store.Count, Time: 3600, Allows: true})
	for name, c := range map[string]struct {
		sets     []store.Set
		deciders []int
		rule     store.Rule
		want     int64 // its hits afterwards; -1 for a ban
	}{
		"an overdraft behind its own counter":   {[]store.Set{allows(other, weighing(3, overdraft("a"))), allows(weighing(9, overdraft("a")))}, []int{-1, 0}, overdraft("a"), 12},
		"an overdraft of a set that is refused": {[]store.Set{allows(weighing(9, plain("b")), overdraft("c")), allows(weighing(9, overdraft("b")))}, []int{0, 0}, overdraft("c"), 0},
		"a ban behind its own counter":          {[]store.Set{allows(other, weighing(3, ban("d"))), allows(weighing(3, ban("d")))}, []int{-1, 0}, ban("d"), 0},
		"a ban after hits of an earlier set":    {[]store.Set{allows(other, weighing(3, denyingBan("g"))), allows(weighing(3, denyingBan("g")))}, []int{-1, 0}, denyingBan("g"), -1},
		"below a decider in another slot":       {[]store.Set{allows(full, weighing(5, plain("e"))), allows(other, weighing(5, plain("e")))}, []int{0, -1}, plain("e"), 5},
		"above a decider in another slot":       {[]store.Set{allows(weighing(5, plain("f")), full), allows(other, plain("f"))}, []int{1, 1}, plain("f"), 0},
	} {
		a := answer(t, r, store.Take, c.sets...)
		got := []int{a.Sets[0].Decider, a.Sets[1].Decider}
		if !slices.Equal(got, c.deciders) {
			t.Errorf("%s: the deciders are %v; want %v", name, got, c.deciders)
		}
		if c.want < 0 {
			if got := answer(t, r, store.Browse, allows(c.rule)).Sets[0]; !got.Banned {
				t.Errorf("%s: no ban: %+v", name, got)
			}
			continue
		}
		if got := hitsOf(t, r, c.rule); got != c.want {
			t.Errorf("%s: %d hits are left; want %d", name, got, c.want)
		}
	}
}

// TestBansOverSlots opens bans by refusals in one of several slots, with takes that
// are refused at once and takes that a browse refuses.
func TestBansOverSlots(t *testing.T) {
	r := storetest.StartCluster(t, 3, false).Open(t, redis.Options{})
	other := about("other", store.Rule{Return: 1, Method: store.Count, Time: 3600, Count: 100})
	allowing := other
	allowing.Allows = true
	for name, above := range map[string]store.Rule{"at once": other, "by a browse": allowing} {
		banning := about(name, store.Rule{Return: 2, Method: store.Leak, Time: 60, Count: 1, Ban: 600})
		answer(t, r, store.Take, allows(above, banning))
		a := answer(t, r, store.Take, allows(above, banning))
		if got := a.Sets[0]; got.Decider != 1 || !got.Banned || got.Retry != 600_000 {
			t.Errorf("%s: the refusal that opens a ban answers %+v", name, got)
		}
		if got := answer(t, r, store.Browse, allows(banning)).Sets[0]; !got.Banned {
			t.Errorf("%s: no ban: %+v", name, got)
		}
	}
}

// TestWaitsOverSlots takes on waiting rules in two slots: the longest wait counts, and
// Cancel gives back both parts, though the caller has used its plan again.
func TestWaitsOverSlots(t *testing.T) {
	r := storetest.StartCluster(t, 3, false).Open(t, redis.Options{})
	short := about("short", store.Rule{Return: 1, Method: store.Token, Time: 1, Count: 2, Burst: 1, Wait: 5000})
	long := about("long", store.Rule{Return: 2, Method: store.Token, Time: 1, Count: 1, Burst: 1, Wait: 5000})
	count := about("count", store.Rule{Return: 3, Method: store.Count, Time: 60, Count: 9})
	plan := func() *store.Plan {
		return &store.Plan{Op: store.Take, Now: 1_793_505_600_000, Zone: time.UTC, Patience: 60_000, Sets: []store.Set{allows(count), allows(short, long)}}
	}
	var a store.Answers
	for i, want := range []int64{0, 1000, 2000} {
		if err := r.Evaluate(context.Background(), plan(), &a); err != nil {
			t.Fatal(err)
		}
		if a.Wait != want || want > 0 && a.Waiter != [2]int{1, 1} || (a.Undo != nil) != (want > 0) {
			t.Fatalf("take %d waits %d ms for rule %v (Undo %v), want %d", i, a.Wait, a.Waiter, a.Undo, want)
		}
	}
	p := plan()
	for range 2 { // the second gives back nothing
		if err := r.Cancel(context.Background(), p, &a); err != nil {
			t.Fatal(err)
		}
	}
	if got := hitsOf(t, r, count); got != 2 {
		t.Errorf("%d hits after a take of three was canceled, want 2", got)
	}
	p.Op = store.Browse
	if err := r.Evaluate(context.Background(), p, &a); err != nil {
		t.Fatal(err)
	}
	if a.Wait != 2000 || a.Undo != nil {
		t.Errorf("after the cancellation a browse reports a wait of %d ms, want that of the canceled take", a.Wait)
	}
	p.Patience = 1999
	if err := r.Evaluate(context.Background(), p, &a); err != nil {
		t.Fatal(err)
	}
	if a.Wait != 0 || a.Sets[1].Decider != 1 || a.Sets[1].Retry != 2000 {
		t.Errorf("a caller without patience gets %+v after %d ms", a.Sets[1], a.Wait)
	}
}

// TestJunkUnderTheKeysOfAReceipt settles, renews and cancels a take in two slots whose
// receipts' keys have other values: nothing fails, the receipt is unknown, and the hits and
// the values stay.
func TestJunkUnderTheKeysOfAReceipt(t *testing.T) {
	servers := storetest.StartCluster(t, 3, false)
	r := servers.Open(t, redis.Options{})
	for name, put := range map[string]func(key string) []any{
		"a list":    func(key string) []any { return []any{"RPUSH", key, "x"} },
		"garbage":   func(key string) []any { return []any{"SET", key, "garbage"} },
		"too large": func(key string) []any { return []any{"SET", key, strings.Repeat("\x01", 4<<20)} },
	} {
		rules := []store.Rule{
			about("count "+name, store.Rule{Return: 1, Method: store.Count, Time: 60, Count: 5, Settle: 60}),
			about("hold "+name, store.Rule{Return: 2, Method: store.Hold, Time: 60, Count: 5}),
		}
		a := answer(t, r, store.Take, allows(rules...))
		junk := 0
		for _, n := range servers.Nodes {
			keys, _ := n.MustDo("KEYS", redis.DefaultPrefix+":2:{#*").([]any)
			for _, key := range keys {
				n.MustDo("DEL", key)
				n.MustDo(put(key.(string))...)
				junk++
			}
		}
		if junk != 2 {
			t.Fatalf("%s: the take has %d receipts; want one in each of two slots", name, junk)
		}
		ctx := context.Background()
		p := &store.Plan{Op: store.Take, Now: 1_793_505_600_000, Zone: time.UTC, Sets: []store.Set{allows(rules...)}}
		settled, err := r.Settle(ctx, &store.Settlement{Receipt: a.Receipt, Now: p.Now, Zone: time.UTC, Judge: &storetest.Judge{Use: store.Use{Concerns: true, Given: true}}})
		if settled.Known || err != nil {
			t.Errorf("%s: settled %+v, %v; want an unknown receipt", name, settled, err)
		}
		renewed, err := r.Renew(ctx, &store.Renewal{Receipt: a.Receipt, Now: p.Now})
		if renewed.Known || err != nil {
			t.Errorf("%s: renewed %+v, %v; want an unknown receipt", name, renewed, err)
		}
		if err := r.Cancel(ctx, p, &a); err != nil {
			t.Errorf("%s: canceled: %v", name, err)
		}
		for _, rule := range rules {
			if got := hitsOf(t, r, rule); got != 1 {
				t.Errorf("%s: %d hits of rule %d; want 1", name, got, rule.Return)
			}
		}
		for _, n := range servers.Nodes {
			keys, _ := n.MustDo("KEYS", redis.DefaultPrefix+":2:{#*").([]any)
			for _, key := range keys {
				n.MustDo("DEL", key)
				junk--
			}
		}
		if junk != 0 {
			t.Errorf("%s: %d values under the keys of receipts are gone; want none", name, junk)
		}
	}
}
