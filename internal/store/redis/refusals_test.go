package redis_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/store/storetest/machine"
)

// pair is two stores on the same counters: one remembers refusals, the other calls
// Redis each time.
type pair struct {
	t                  *testing.T
	remembering, plain *redis.Store
	begin              int64
}

func openPair(t *testing.T, server *storetest.Server) *pair {
	t.Helper()
	p := &pair{t: t, remembering: server.Open(t), begin: now}
	p.plain = server.Open(t, storetest.Plain, func(o *redis.Options) { o.Prefix = p.remembering.Prefix() })
	attract(t, p.remembering)
	return p
}

// attract makes Redis refuse a call, so that a store remembers the refusals that follow.
func attract(t *testing.T, s *redis.Store) {
	t.Helper()
	rule := numbered(9, 0)
	rule.Subject = []byte("refused")
	var a store.Answers
	p := &store.Plan{Op: store.Take, Now: now, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{rule}}}}
	if err := s.Evaluate(context.Background(), p, &a); err != nil || a.Sets[0].Decider < 0 {
		t.Fatalf("%+v, %v; want a refusal", a, err)
	}
}

func (p *pair) do(s *redis.Store, op store.Op, at int64, rules ...store.Rule) store.Answers {
	p.t.Helper()
	var a store.Answers
	plan := &store.Plan{Op: op, Now: p.begin + at, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: rules}}}
	if err := s.Evaluate(context.Background(), plan, &a); err != nil {
		p.t.Fatal(err)
	}
	return *machine.Normalize(&a)
}

// fromMemory reports whether a call in f was answered without Redis.
func (p *pair) fromMemory(f func()) bool {
	before := p.remembering.Calls().Remembered
	f()
	return p.remembering.Calls().Remembered > before
}

// TestRememberedRefusalsEqualAnswersOfRedis compares remembered refusals with the
// answers of Redis in the second after a refusal, for every method.
func TestRememberedRefusalsEqualAnswersOfRedis(t *testing.T) {
	server := storetest.StartServer(t)
	free := numbered(5, 1000) // above the rule that refuses
	for name, rules := range map[string][]store.Rule{
		"count":           {numbered(1, 2)},
		"count of a day":  {{Return: 1, Method: store.Count, Weight: 1, Time: store.Day, Count: 2}},
		"count, weight 2": {weighs(numbered(1, 3), 2)},
		"base":            {{Return: 2, Method: store.Base, Weight: 1, Time: 1, Count: 2, Base: 1}},
		"base, free hits": {{Return: 2, Method: store.Base, Weight: 3, Time: 1, Count: 3, Base: 2}},
		"leak":            {{Return: 3, Method: store.Leak, Weight: 1, Time: 1, Count: 2}},
		"the second rule": {free, numbered(1, 2)},
		"with a shadow":   {numbered(1, 2), {Return: 6, Method: store.Count, Weight: 1, Time: 60, Count: 1, Shadow: true}},
		"a ban":           {numbered(1, 0)},
		"a ban of a day":  {{Return: 1, Method: store.Count, Weight: 1, Time: store.Day}},
		"more than fits":  {weighs(numbered(1, 2), 3)},
		"an outcome":      {{Return: 8, Method: store.Count, Weight: 1, Time: 60, Settle: 600, Outcome: true}},
		"three of a day":  {{Return: 7, Method: store.Leak, Weight: 1, Time: store.Day, Count: 2}, free},
	} {
		t.Run(name, func(t *testing.T) {
			p := openPair(t, server)
			for i := range rules {
				rules[i].Subject = []byte("u" + strconv.Itoa(i))
			}
			for p.do(p.remembering, store.Take, 0, rules...).Sets[0].Decider < 0 {
			}
			remembered := 0
			for at := int64(0); at < 1500; at += 7 {
				want := p.do(p.plain, store.Browse, at, rules...)
				var got store.Answers
				if p.fromMemory(func() { got = p.do(p.remembering, store.Take, at, rules...) }) {
					remembered++
				} else if want.Sets[0].Decider < 0 {
					return // admitted, so the counter has changed
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("after %d ms (-redis +from memory):\n%s", at, diff)
				}
			}
			if remembered < 20 {
				t.Errorf("%d refusals were answered from memory", remembered)
			}
		})
	}
}

// numbered returns a count rule of a return with a limit.
func numbered(number, limit int64) store.Rule {
	return store.Rule{Return: number, Method: store.Count, Weight: 1, Time: 60, Count: limit}
}

// TestChangesEndRememberedRefusals changes counters after a refusal. The next take
// goes to Redis; a change by another process takes effect a second later.
func TestChangesEndRememberedRefusals(t *testing.T) {
	server := storetest.StartServer(t)
	refused := numbered(1, 2)
	refused.Subject = []byte("u")
	other := numbered(2, 2)
	other.Subject = []byte("u")
	with := func(change func(r *store.Rule)) []store.Rule {
		r := refused
		change(&r)
		return []store.Rule{r}
	}
	for name, c := range map[string]struct {
		do     func(p *pair)
		at     int64
		take   []store.Rule
		memory bool
	}{
		"nothing":                 {func(*pair) {}, 999, []store.Rule{refused}, true},
		"a second":                {func(*pair) {}, 1000, []store.Rule{refused}, false},
		"a clock that steps back": {func(*pair) {}, -1, []store.Rule{refused}, false},
		"a browse and a peek": {func(p *pair) {
			p.do(p.remembering, store.Browse, 0, refused)
			p.do(p.remembering, store.Peek, 0, refused)
		}, 1, []store.Rule{refused}, true},
		"a refund":                  {func(p *pair) { p.do(p.remembering, store.Refund, 0, refused) }, 1, []store.Rule{refused}, false},
		"a reset":                   {func(p *pair) { p.do(p.remembering, store.Reset, 0, refused) }, 1, []store.Rule{refused}, false},
		"an update":                 {func(p *pair) { p.do(p.remembering, store.Update, 0, refused) }, 1, []store.Rule{refused}, false},
		"another rule's hits":       {func(p *pair) { p.do(p.remembering, store.Take, 0, other) }, 1, []store.Rule{refused}, true},
		"a refund elsewhere":        {func(p *pair) { p.do(p.plain, store.Refund, 0, refused) }, 999, []store.Rule{refused}, true},
		"… a second later":          {func(p *pair) { p.do(p.plain, store.Refund, 0, refused) }, 1000, []store.Rule{refused}, false},
		"everything removed":        {func(p *pair) { p.t.Helper(); _ = p.remembering.Clear(context.Background()) }, 1, []store.Rule{refused}, false},
		"a limit that was raised":   {func(*pair) {}, 1, with(func(r *store.Rule) { r.Count = 3 }), false},
		"a weight of 0":             {func(*pair) {}, 1, with(func(r *store.Rule) { r.Weight = 0 }), false},
		"another subject":           {func(*pair) {}, 1, with(func(r *store.Rule) { r.Subject = []byte("v") }), false},
		"a rule above it":           {func(*pair) {}, 1, []store.Rule{other, refused}, false},
		"a rule that is now shadow": {func(*pair) {}, 1, with(func(r *store.Rule) { r.Shadow = true }), false},
	} {
		t.Run(name, func(t *testing.T) {
			p := openPair(t, server)
			for range 3 {
				p.do(p.remembering, store.Take, 0, refused)
			}
			c.do(p)
			want := p.do(p.plain, store.Browse, c.at, c.take...)
			var got store.Answers
			memory := p.fromMemory(func() { got = p.do(p.remembering, store.Take, c.at, c.take...) })
			if memory != c.memory {
				t.Errorf("answered from memory is %v", memory)
			}
			if wantRefused, refused := want.Sets[0].Decider >= 0, got.Sets[0].Decider >= 0; !memory && refused != wantRefused {
				t.Errorf("refused is %v", refused)
			}
		})
	}
}

// TestRememberedRefusalsAnswerTheirOwnPlanOnly uses two plans with the same rules
// and the same keys, assigned to the rules differently.
func TestRememberedRefusalsAnswerTheirOwnPlanOnly(t *testing.T) {
	p := openPair(t, storetest.StartServer(t))
	rules := func(subjects ...string) (list []store.Rule) {
		for i, limit := range []int64{1000, 2, 1000} {
			list = append(list, numbered(int64(i+1), limit))
			list[i].Subject = []byte(subjects[i])
		}
		return list
	}
	take := func(subjects ...string) int {
		return p.do(p.remembering, store.Take, 0, rules(subjects...)...).Sets[0].Decider
	}
	take("D", "B", "D") // B has one of its two hits
	take("A", "A", "B")
	take("A", "A", "B")
	if decider := take("A", "A", "B"); decider != 1 {
		t.Fatalf("A's third hit is decided by rule %d", decider)
	}
	// Rule 1 changes as often for A as rule 2 has for B, so that the numbers of
	// changes do not distinguish the plans either.
	take("A", "E", "E")
	if decider := take("A", "B", "B"); decider >= 0 {
		t.Errorf("B's second hit is refused by rule %d", decider)
	}
}

// TestLateAnswersDoNotProlongRefusals delays an answer of Redis by 300 ms: the
// remembered refusal ends with the window, not 300 ms later.
func TestLateAnswersDoNotProlongRefusals(t *testing.T) {
	server := storetest.StartServer(t)
	late := new(lateAnswers)
	client := goredis.NewClient(&goredis.Options{Network: "unix", Addr: strings.TrimPrefix(server.URL(), "unix://"), MaxRetries: -1})
	defer client.Close()
	client.AddHook(late)
	r := server.Open(t, func(o *redis.Options) { o.Client = client })
	r.SetRefusalClock(late.clock.Load)
	take := func() (retry int64, fromMemory bool) {
		t.Helper()
		rule := numbered(1, 1)
		rule.Subject, rule.Time = []byte("u"), 1
		before := r.Calls().Remembered
		var a store.Answers
		p := &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{rule}}}}
		if err := r.Evaluate(context.Background(), p, &a); err != nil {
			t.Fatal(err)
		}
		if a.Sets[0].Decider >= 0 && a.Sets[0].Retry <= 0 {
			t.Errorf("a refusal that ends in %d ms", a.Sets[0].Retry)
		}
		return a.Sets[0].Retry, r.Calls().Remembered > before
	}
	attract(t, r)
	late.by = 300
	begin, left := int64(0), int64(-1)
	for left < 0 { // the first is admitted, and each after the window has closed
		begin = late.clock.Load()
		left, _ = take()
	}
	late.by = 0
	for _, c := range []struct {
		after int64
		want  bool
	}{{left - 1, true}, {left, false}} {
		late.clock.Store(begin + c.after)
		if _, got := take(); got != c.want {
			t.Errorf("%d ms after the call that was refused for %d ms: answered from memory is %v", c.after, left, got)
		}
	}
}

// lateAnswers is a client hook that advances the clock before each answer.
type lateAnswers struct {
	clock atomic.Int64 // ms
	by    int64
}

func (l *lateAnswers) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (l *lateAnswers) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		defer l.clock.Add(l.by)
		return next(ctx, cmd)
	}
}

func (l *lateAnswers) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

// TestSomeRefusalsAreNeverRemembered repeats plans whose refusals change before
// their end, or count.
func TestSomeRefusalsAreNeverRemembered(t *testing.T) {
	server := storetest.StartServer(t)
	u := []byte("u")
	one := store.Rule{Subject: u, Return: 1, Method: store.Count, Weight: 1, Time: 60, Count: 1}
	shadow := one
	shadow.Return, shadow.Shadow = 2, true
	allows := one
	allows.Allows = true
	leak := store.Rule{Subject: u, Return: 3, Method: store.Leak, Weight: 2, Time: 60, Count: 3}
	base := store.Rule{Subject: u, Return: 5, Method: store.Base, Weight: 1, Time: 60, Count: 1, Base: 1}
	token := store.Rule{Subject: u, Return: 4, Method: store.Token, Weight: 1, Time: 60, Count: 1, Burst: 1}
	sets := func(rules ...store.Rule) []store.Set { return []store.Set{{Allows: true, Rules: rules}} }
	for name, plan := range map[string]store.Plan{
		"a browse":                    {Op: store.Browse, Sets: sets(one)},
		"an update":                   {Op: store.Update, Sets: sets(one)},
		"a complete answer":           {Op: store.CompleteTake, Sets: sets(one)},
		"several sets":                {Op: store.Take, Sets: append(sets(one), store.Set{Allows: true, Rules: []store.Rule{leak}})},
		"a set without rules":         {Op: store.Take, Sets: sets()},
		"a set that refunds":          {Op: store.Take, Sets: []store.Set{{Refund: true, Rules: []store.Rule{one}}}},
		"a shadow rule that refuses":  {Op: store.Take, Sets: sets(shadow, one)},
		"a decider whose answer is 0": {Op: store.Take, Sets: sets(allows)},
		"a leak rule's weight of 2":   {Op: store.Take, Sets: sets(leak)},
		"a bucket":                    {Op: store.Take, Sets: sets(token)},
		"a weight beyond a base rule": {Op: store.Take, Sets: sets(weighs(base, 3))},
		"a weight beyond a leak rule": {Op: store.Take, Sets: sets(weighs(leak, 4))},
	} {
		t.Run(name, func(t *testing.T) {
			p := openPair(t, server)
			plan.Now, plan.Zone = now, time.UTC
			for i := range 5 {
				if p.do(p.remembering, store.Update, 0, one, shadow); p.fromMemory(func() {
					for range 3 {
						if err := p.remembering.Evaluate(context.Background(), &plan, new(store.Answers)); err != nil {
							t.Fatal(err)
						}
					}
				}) {
					t.Fatalf("round %d was answered from memory", i)
				}
			}
		})
	}
}

// TestRefundsEndRememberedRefusalsAtOnce refunds while other callers are refused by
// the same store, by the real clock: a take after the refund has returned finds the
// refunded hits.
func TestRefundsEndRememberedRefusalsAtOnce(t *testing.T) {
	server := storetest.StartServer(t)
	r := server.Open(t)
	rule := store.Rule{Subject: []byte("u"), Return: 1, Method: store.Count, Weight: 1, Time: 3600, Count: 1}
	do := func(op store.Op) bool {
		var a store.Answers
		p := &store.Plan{Op: op, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{rule}}}}
		if err := r.Evaluate(context.Background(), p, &a); err != nil {
			t.Error(err)
		}
		return a.Sets[0].Decider < 0
	}
	// The other callers are always refused.
	stop := make(chan struct{})
	var others sync.WaitGroup
	for range 4 {
		others.Go(func() {
			heavy := rule
			heavy.Weight, heavy.Return = 1, 1
			for {
				select {
				case <-stop:
					return
				default:
				}
				var a store.Answers
				p := &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: false, Rules: []store.Rule{heavy}}}}
				if err := r.Evaluate(context.Background(), p, &a); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 200 {
		if !do(store.Take) {
			t.Fatalf("round %d: refused after a refund", i)
		}
		if do(store.Take) {
			t.Fatalf("round %d: admitted above the limit", i)
		}
		do(store.Take) // mostly answered from memory
		do(store.Refund)
	}
	close(stop)
	others.Wait()
	if r.Calls().Remembered == 0 {
		t.Error("no refusal was answered from memory")
	}
}

// TestRememberedRefusalsAreBounded refuses more subjects than the store may
// remember.
func TestRememberedRefusalsAreBounded(t *testing.T) {
	server := storetest.StartServer(t)
	r := server.Open(t, func(o *redis.Options) { o.Refusals = 64 })
	var a store.Answers
	rule := numbered(1, 0)
	rule.Count, rule.Weight = 1, 1
	for _, i := range slices.Repeat(slices.Collect(func(yield func(int) bool) {
		for i := range 1000 {
			if !yield(i) {
				return
			}
		}
	}), 3) {
		rule.Subject = strconv.AppendInt(nil, int64(i), 10)
		p := &store.Plan{Op: store.Take, Now: now, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{rule}}}}
		if err := r.Evaluate(context.Background(), p, &a); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.Calls().Remembered; n > 200 {
		t.Errorf("%d refusals of 1000 subjects in turn were answered from memory; it holds 64", n)
	}
}

// TestRefusalsAreRememberedWhileRedisRefuses checks that the first refusal of two seconds is
// not remembered, and that no change of its counter is missed before the second.
func TestRefusalsAreRememberedWhileRedisRefuses(t *testing.T) {
	r := storetest.StartServer(t).Open(t)
	var clock atomic.Int64
	r.SetRefusalClock(clock.Load)
	rule := numbered(1, 1)
	rule.Subject = []byte("u")
	do := func(op store.Op) (refused, fromMemory bool) {
		t.Helper()
		before := r.Calls().Remembered
		var a store.Answers
		p := &store.Plan{Op: op, Now: now, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{rule}}}}
		if err := r.Evaluate(context.Background(), p, &a); err != nil {
			t.Fatal(err)
		}
		return a.Sets[0].Decider >= 0, r.Calls().Remembered > before
	}
	want := func(refused, fromMemory bool) {
		t.Helper()
		if gotRefused, got := do(store.Take); gotRefused != refused || got != fromMemory {
			t.Errorf("after %d ms: refused is %v, from memory is %v; want %v, %v", clock.Load(), gotRefused, got, refused, fromMemory)
		}
	}
	want(false, false)
	for range 3 {
		want(true, false) // the first refusal for long
		want(true, false)
		want(true, true)
		do(store.Refund)
		want(false, false)
		clock.Add(1999)
		want(true, false)
		want(true, true)
		clock.Add(2000)
		do(store.Refund)
		want(false, false)
	}
}
