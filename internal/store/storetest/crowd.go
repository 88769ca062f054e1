package storetest

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
)

// checkCrowd makes 400 concurrent takes of which 10 are admitted, by the store's own
// clock, with each method.
func checkCrowd(t *testing.T, s store.Store) {
	for i, r := range []store.Rule{count(3600, 10), base(10, 3600, 1), leak(3600, 10), token(3600, 1, 10)} {
		if r.Method == store.Base {
			r.Base, r.Count = 5, 6 // the fifth hit is free, and counts in the second window too
		}
		var admitted atomic.Int64
		var callers sync.WaitGroup
		for range 400 {
			callers.Go(func() {
				var a store.Answers
				p := &store.Plan{Op: store.Take, Zone: Noon(), Sets: one(r, numbered(2, count(3600, 1000)))}
				if err := s.Evaluate(context.Background(), p, &a); err != nil {
					t.Error(err)
					return
				}
				if a.Sets[0].Decider < 0 {
					admitted.Add(1)
				}
			})
		}
		callers.Wait()
		if n := admitted.Load(); n != 10 {
			t.Errorf("method %d: %d of 400 were admitted, want 10", r.Method, n)
		}
		var a store.Answers
		p := &store.Plan{Op: store.Peek, Zone: time.UTC, Sets: one(numbered(2, count(3600, 1000)))}
		if err := s.Evaluate(context.Background(), p, &a); err != nil {
			t.Fatal(err)
		}
		if want := int64(10 * (i + 1)); a.Sets[0].Hits != want {
			t.Errorf("method %d: the rule that all callers share has %d hits, want %d", r.Method, a.Sets[0].Hits, want)
		}
	}
}

// checkTurns makes 40 concurrent takes on a rule that lets them wait, by the store's own
// clock, of which every fourth leaves. There are never more turns than the rate allows.
func checkTurns(t *testing.T, s store.Store) {
	var mu sync.Mutex
	var turns []int64
	var callers sync.WaitGroup
	for i := range 40 {
		callers.Go(func() {
			var a store.Answers
			p := &store.Plan{Op: store.Take, Zone: Noon(), Patience: 60_000, Sets: one(waiting(60_000, token(1, 50, 1)), numbered(2, count(3600, 100)))}
			if err := s.Evaluate(context.Background(), p, &a); err != nil || a.Sets[0].Decider >= 0 {
				t.Errorf("%+v, %v; want it admitted", a, err)
				return
			}
			if i%4 == 0 && a.Wait > 0 {
				if err := s.Cancel(context.Background(), p, &a); err != nil {
					t.Error(err)
				}
				return // a later caller may have its turn
			}
			mu.Lock()
			turns = append(turns, a.Now+a.Wait)
			mu.Unlock()
		})
	}
	callers.Wait()
	slices.Sort(turns)
	for i := range turns {
		if turns[i] < turns[0]+int64(i)*20 {
			t.Errorf("turns at %v: more than one in 20 ms", turns)
			break
		}
	}
	var a store.Answers
	p := &store.Plan{Op: store.Peek, Zone: Noon(), Sets: one(numbered(2, count(3600, 100)))}
	if err := s.Evaluate(context.Background(), p, &a); err != nil || a.Sets[0].Hits != int64(len(turns)) {
		t.Errorf("%d hits are counted, %v; want those of the %d that did not leave", a.Sets[0].Hits, err, len(turns))
	}
}

// checkEntries records 1000 hits beyond the limit of a leak rule, a millisecond apart: each
// leaves at its own instant. More may join the newest.
func checkEntries(t *testing.T, s store.Store) {
	r := overdraft(leak(10, 1))
	at := func(op store.Op, ms int64) (a store.Answers) {
		t.Helper()
		if err := s.Evaluate(context.Background(), &store.Plan{Op: op, Now: noon + ms, Zone: time.UTC, Sets: one(r)}, &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	for ms := range int64(1000) {
		at(store.Take, ms)
	}
	for _, ms := range []int64{10_000, 10_001, 10_500, 10_998} {
		if hits := at(store.Peek, ms).Sets[0].Hits; hits != 10_999-ms {
			t.Errorf("after %d ms %d hits are left; want %d", ms, hits, 10_999-ms)
		}
	}
	for ms := range int64(2000) {
		at(store.Take, 20_000+ms)
	}
	if hits := at(store.Peek, 29_999).Sets[0].Hits; hits != 2000 {
		t.Errorf("%d hits are counted; want 2000", hits)
	}
	if a := at(store.Peek, 31_999); a.Sets[0].Hits != 0 {
		t.Errorf("%d hits are left after the newest has left", a.Sets[0].Hits)
	}
}

// checkLargestPlan evaluates a plan with as many rules as possible.
func checkLargestPlan(t *testing.T, s store.Store) {
	var rules []store.Rule
	for i := range int64(store.MaxRules) {
		rules = append(rules, about(strconv.FormatInt(i/2, 10), shadow(numbered(i, count(3600, 1)))))
	}
	for round := range 2 {
		var a store.Answers
		if err := s.Evaluate(context.Background(), &store.Plan{Op: store.Take, Zone: time.UTC, Sets: one(rules...)}, &a); err != nil {
			t.Fatal(err)
		}
		if n := len(a.Sets[0].Refusals); n != round*store.MaxRules {
			t.Errorf("round %d: %d of %d rules refuse", round, n, store.MaxRules)
		}
	}
}

// checkSubjects counts for subjects that a careless key would confuse.
func checkSubjects(t *testing.T, s store.Store) {
	long := strings.Repeat("x", 20_000)
	subjects := []string{
		"", "\x00", "a", "A", "a|b", "a%7Cb", "a%7cb", "%", "%25", "#", "##", "{", "}", "{a}", "a}", "a b", "a+b", "a\nb",
		"é", "e\u0301", "\xff\xfe", "\xff", "a:b", "a:b:9", long, long + "y", "y" + long, long[:129], long[:128], long[:127],
		"#2d711642b726b04401627ca9fbac32f5", strings.Repeat("\x00", 43), strings.Repeat("\x00", 42), strings.Repeat("%00", 42),
	}
	for i := range 256 {
		subjects = append(subjects, "byte"+string([]byte{byte(i)}))
	}
	for round := range 2 {
		for _, subject := range subjects {
			for _, r := range []store.Rule{about(subject, count(3600, 1)), about(subject, numbered(2, leak(3600, 1)))} {
				var a store.Answers
				p := &store.Plan{Op: store.Take, Zone: time.UTC, Sets: one(r)}
				if err := s.Evaluate(context.Background(), p, &a); err != nil {
					t.Fatalf("subject %.40q: %v", subject, err)
				}
				if admitted := a.Sets[0].Decider < 0; admitted != (round == 0) {
					t.Errorf("subject %.40q, round %d: admitted is %v", subject, round, admitted)
				}
			}
		}
	}
}

// leased returns the rule with a lease.
func leased(r store.Rule) store.Rule {
	r.Lease = 100
	return r
}

// checkInvalidPlans evaluates plans that would damage counters: each is an error.
func checkInvalidPlans(t *testing.T, s store.Store) {
	good := count(60, 1)
	plans := map[string]*store.Plan{
		"no operation":           {Sets: one(good)},
		"operation 9":            {Op: 9, Sets: one(good)},
		"a time before 1970":     {Op: store.Take, Now: -1, Sets: one(good)},
		"a weight below 0":       {Op: store.Take, Sets: one(weighing(-1, good))},
		"a weight beyond 10^15":  {Op: store.Take, Sets: one(weighing(store.MaxWeight+1, good))},
		"a time of 0":            {Op: store.Take, Sets: one(count(0, 1))},
		"a count below 0":        {Op: store.Take, Sets: one(count(60, -1))},
		"a return beyond 2^31":   {Op: store.Take, Sets: one(numbered(1<<31, good))},
		"no method":              {Op: store.Take, Sets: one(rule(0, 1, 60, 1))},
		"method 6":               {Op: store.Take, Sets: one(rule(6, 1, 60, 1))},
		"a base of 0":            {Op: store.Take, Sets: one(base(0, 60, 1))},
		"a burst below 0":        {Op: store.Take, Sets: one(token(60, 1, -1))},
		"a count beyond 9·10^15": {Op: store.Take, Sets: one(count(60, 9e15+1))},
		"a base beyond 9·10^15":  {Op: store.Take, Sets: one(base(9e15+1, 60, 1))},
		"a unit beyond a year":   {Op: store.Take, Sets: one(every(8, 0, 1))},
		"a unit of a leak rule":  {Op: store.Take, Sets: one(store.Rule{Method: store.Leak, Unit: store.Hour, Count: 1})},
		"a day 32 of a month":    {Op: store.Take, Sets: one(every(store.Month, 32, 1))},
		"a day 8 of a week":      {Op: store.Take, Sets: one(every(store.Week, 8, 1))},
		"a beginning of a year":  {Op: store.Take, Sets: one(every(store.Year, 1, 1))},
		"a wait beyond 2^53":     {Op: store.Take, Sets: one(waiting(1000, token(1, 9e12, 9e12)))},
		"a wait of a count rule": {Op: store.Take, Sets: one(waiting(1000, good))},
		"a ban of a token rule":  {Op: store.Take, Sets: one(banning(1, token(1, 1, 1)))},
		"a ban of 367 days":      {Op: store.Take, Sets: one(banning(367*store.Day, good))},
		"an overdraft of a base": {Op: store.Take, Sets: one(overdraft(base(1, 60, 1)))},
		"a mark with a shadow":   {Op: store.Take, Sets: one(marked(shadow(good)))},
		"a mark with a ban":      {Op: store.Take, Sets: one(marked(banning(1, good)))},
		"a mark with a wait":     {Op: store.Take, Sets: one(marked(waiting(1, token(1, 1, 1))))},
		"a mark with a lease":    {Op: store.Take, Sets: one(leased(marked(good)))},
		"no patience":            {Op: store.Take, Patience: -1, Sets: one(good)},
		"a bucket beyond 2^53":   {Op: store.Take, Sets: one(token(31_622_400, 1, 1_000_000))},
		"a token count below 0":  {Op: store.Take, Sets: one(token(60, -1, 1))},
		"the second set's rule":  {Op: store.Take, Sets: []store.Set{of(good), of(weighing(-1, good))}},
		"2049 rules":             {Op: store.Take, Sets: []store.Set{of(slices.Repeat([]store.Rule{good}, 2000)...), of(slices.Repeat([]store.Rule{good}, 49)...)}},
	}
	for name, p := range plans {
		p.Zone = time.UTC
		var a store.Answers
		if err := s.Evaluate(context.Background(), p, &a); err == nil {
			t.Errorf("%s: evaluated: %+v", name, a)
		}
	}
	var a store.Answers
	if err := s.Evaluate(context.Background(), &store.Plan{Op: store.Take, Zone: time.UTC, Sets: one(good)}, &a); err != nil || a.Sets[0].Decider >= 0 {
		t.Errorf("a valid plan after the invalid ones: %+v, %v; want admitted", a, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Evaluate(ctx, &store.Plan{Op: store.Take, Zone: time.UTC, Sets: one(good)}, &a); err == nil {
		t.Error("a canceled call was answered")
	}
}
