package engine_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/rules"
)

const exceptionRules = `[rules]
rule : [count] [a=1; uid=+] [time=60; count=2] [result=2; return=1]
rule : [leak] [a=2; uid=+] [time=60; count=2] [result=2; return=2]
rule : [token] [a=3; uid=+] [time=60; count=2] [result=2; return=3]
rule : [token] [a=4; uid=+] [time=60; count=2; burst=1] [result=2; return=4]
rule : [base] [a=5; uid=+] [time=60; count=1; base=1] [result=2; return=5]
rule : [direct] [a=6; uid=+] [] [result=2; return=6]
rule : [count] [a=7; uid=+] [time=60; count=2] [result=2; return=7; shadow=1]
rule : [count] [a=8; uid=+] [time=60; count=2] [result=1; return=8]
rule : [count] [a=9; uid=+] [time=60; count=param plan else 2] [result=2; return=9]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// now is the time of the calls, in ms since the epoch.
const now = 1780286400000

func exceptionOf(t testing.TB, set *rules.Set, rule int64, uid string, x engine.Exception) engine.Exception {
	t.Helper()
	p := new(rules.Params)
	p.SetNamed("uid", uid)
	match, err := set.Rule(rule).Identify(p)
	if err != nil {
		t.Fatal(err)
	}
	x.ID, x.Match = fmt.Sprintf("x%d-%s", rule, uid), match
	return x
}

func exceptionSet(t testing.TB) *rules.Set {
	t.Helper()
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(exceptionRules)}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	return set
}

// An exception changes what its rule does for its identity, and nothing else.
func TestExceptions(t *testing.T) {
	set := exceptionSet(t)
	count := func(n int64) engine.Exception {
		return engine.Exception{Kind: engine.ExceptCount, Count: n, Until: now + 1}
	}
	allow := engine.Exception{Kind: engine.ExceptAllow, Until: now + 1}
	deny := engine.Exception{Kind: engine.ExceptDeny, Until: now + 1}
	for _, c := range []struct {
		name      string
		rule      int64
		exception engine.Exception
		admitted  int // of five takes; without an exception, of another identity, too
		plain     int
		applies   bool
	}{
		{"count", 1, count(3), 3, 2, true},
		{"fewer", 1, count(1), 1, 2, true},
		{"leak", 2, count(3), 3, 2, true},
		{"token without a burst", 3, count(3), 3, 2, true},
		{"token with a burst", 4, count(3), 1, 1, true},
		{"base has no count", 5, count(3), 1, 1, false},
		{"allow base", 5, allow, 5, 1, true},
		{"allow", 1, allow, 5, 2, true},
		{"deny", 1, deny, 0, 2, true},
		{"allow direct", 6, allow, 5, 0, true},
		{"deny direct", 6, deny, 0, 0, true},
		{"direct has no count", 6, count(3), 0, 0, false},
		{"deny in shadow", 7, deny, 5, 5, true},
		{"deny by a result that allows", 8, deny, 5, 5, false},
		{"a threshold of the request", 9, count(3), 3, 2, true},
		{"ended", 1, engine.Exception{Kind: engine.ExceptAllow, Until: now}, 2, 2, false},
		{"of no kind", 1, engine.Exception{Until: now + 1}, 2, 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			list := new(engine.Exceptions)
			e := engine.New(set, engine.WithExceptions(list))
			list.Set([]engine.Exception{exceptionOf(t, set, c.rule, "ann", c.exception)})
			for uid, want := range map[string]int{"ann": c.admitted, "bob": c.plain} {
				admitted := 0
				for range 5 {
					d := takeAt(t, e, c.rule, uid, nil)
					if d.Verdict == rules.Allow {
						admitted++
					}
					if applied := len(d.Answers[0].Exceptions) == 1; applied != (c.applies && uid == "ann") {
						t.Errorf("%s: exceptions %v", uid, d.Answers[0].Exceptions)
					}
				}
				if admitted != want {
					t.Errorf("%s: %d admitted; want %d", uid, admitted, want)
				}
			}
		})
	}
}

func takeAt(t testing.TB, e *engine.Engine, rule int64, uid string, o *engine.Override) *engine.Decision {
	t.Helper()
	p := new(rules.Params)
	p.Set("a", strconv.FormatInt(rule, 10))
	p.SetNamed(map[bool]string{true: "uid@client-ip", false: "uid"}[strings.Contains(uid, ".")], uid)
	d, err := e.Decide(t.Context(), &engine.Call{Op: engine.Take, Now: now, Inputs: []engine.Input{{Params: p, Override: o}}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestExceptionsWithoutARuleHaveNoEffect(t *testing.T) {
	set, list := exceptionSet(t), new(engine.Exceptions)
	list.Set([]engine.Exception{
		{},
		{Kind: engine.ExceptCount, Count: 1, Until: now + 1},
		{Kind: engine.ExceptAllow, Until: now + 1},
		{Kind: engine.ExceptDeny, Until: now + 1},
		exceptionOf(t, set, 1, "ann", engine.Exception{Kind: engine.ExceptDeny}), // ended at 0
	})
	if d := takeAt(t, engine.New(set, engine.WithExceptions(list)), 1, "ann", nil); !d.Allowed() || len(d.Answers[0].Exceptions) > 0 {
		t.Errorf("%+v; want it allowed without an exception", d)
	}
}

// A limit that is part of the call has no exceptions.
func TestOverridesIgnoreExceptions(t *testing.T) {
	set, list := exceptionSet(t), new(engine.Exceptions)
	e := engine.New(set, engine.WithExceptions(list))
	list.Set([]engine.Exception{exceptionOf(t, set, 1, "ann", engine.Exception{Kind: engine.ExceptDeny, Until: now + 1})})
	if d := takeAt(t, e, 1, "ann", &engine.Override{Count: 1, Seconds: 60}); d.Verdict != rules.Allow {
		t.Error("an exception refused a limit of the call")
	}
	if d := takeAt(t, e, 1, "ann", nil); d.Verdict != rules.Deny || d.Refusal().Status != 429 && d.Refusal().Status != 403 {
		t.Errorf("%v", d.Verdict)
	}
	list.Set(nil)
	if d := takeAt(t, e, 1, "ann", nil); d.Verdict != rules.Allow {
		t.Error("an exception that was removed applies")
	}
}

// The state of a counter is that by its exception.
func TestCountersWithExceptions(t *testing.T) {
	set, list := exceptionSet(t), new(engine.Exceptions)
	list.SetClock(func() int64 { return now })
	e := engine.New(set, engine.WithExceptions(list))
	x := exceptionOf(t, set, 1, "ann", engine.Exception{Kind: engine.ExceptCount, Count: 7, Until: now + 1})
	list.Set([]engine.Exception{x})
	x.Match.Limits = set.Rule(1).Limits
	counters, degraded, err := e.Counters(t.Context(), []rules.Match{x.Match})
	if err != nil || degraded || counters[0].Limit != 7 || counters[0].Exception == nil || counters[0].Exception.ID != x.ID {
		t.Errorf("%+v, %v, %v", counters, degraded, err)
	}
}

// manyExceptions is the number of exceptions that a look-up is measured with.
const manyExceptions = 100_000

// Each of many exceptions is found, and no other identity meets one.
func TestManyExceptions(t *testing.T) {
	set, list := exceptionSet(t), new(engine.Exceptions)
	e := engine.New(set, engine.WithExceptions(list))
	all := make([]engine.Exception, manyExceptions)
	for i := range all {
		all[i] = exceptionOf(t, set, 1, fmt.Sprint("u", i), engine.Exception{Kind: engine.ExceptDeny, Until: now + 1})
	}
	list.Set(all)
	for i := range 1000 {
		if d := takeAt(t, e, 1, fmt.Sprint("u", i*97), nil); d.Verdict != rules.Deny || d.Answers[0].Exceptions[0].ID != all[i*97].ID {
			t.Fatalf("u%d: %v", i*97, d.Verdict)
		}
		if d := takeAt(t, e, 1, fmt.Sprint("v", i), nil); d.Verdict != rules.Allow || d.Answers[0].Exceptions != nil {
			t.Fatalf("v%d: %v", i, d.Verdict)
		}
	}
}

// PrepareMore adds an exception, which then applies as if Set had set it with the others.
func TestAddedExceptions(t *testing.T) {
	set, list := exceptionSet(t), new(engine.Exceptions)
	list.SetClock(func() int64 { return now })
	e := engine.New(set, engine.WithExceptions(list))
	deny := func(rule int64, uid string) engine.Exception {
		return exceptionOf(t, set, rule, uid, engine.Exception{Kind: engine.ExceptDeny, Until: now + 1})
	}
	lasting := func(x engine.Exception) engine.Exception { x.Until = now + 9; return x }
	allow := func(uid string) engine.Exception {
		return exceptionOf(t, set, 1, uid, engine.Exception{Kind: engine.ExceptAllow, Until: now + 1})
	}
	all := []engine.Exception{deny(1, "ann"), deny(1, "kim"), deny(1, "lou"), lasting(deny(1, "sue")), lasting(allow("ned")), deny(1, "ned"), banOf(now+9000, "uid", "zoe"), banOf(now+5000, "uid", "eva")}
	list.Set(all)
	add := func(x engine.Exception) bool {
		t.Helper()
		set := list.PrepareMore([]engine.Exception{x}, func() {})
		if set != nil {
			set()
		}
		return set != nil
	}
	for _, x := range []engine.Exception{
		deny(1, "bob"), exceptionOf(t, set, 6, "bob", engine.Exception{Kind: engine.ExceptAllow, Until: now + 1}),
		allow("kim"), allow("sue"), lasting(allow("lou")), deny(1, "lou"),
		banOf(now+1000, "uid", "zoe"), banOf(now+7000, "uid", "eva"), banOf(now+3000, "uid", "may"),
	} {
		if !add(x) {
			t.Fatalf("%s is not added", x.ID)
		}
	}
	for _, c := range []struct {
		rule    int64
		uid     string
		allowed bool
		retry   time.Duration // of the refusal by a ban
	}{
		{1, "ann", false, 0},
		{1, "bob", false, 0},
		{1, "kim", true, 0},  // both end at once: the later one
		{1, "sue", false, 0}, // the one that ends last
		{1, "lou", true, 0},
		{1, "ned", true, 0},
		{1, "joe", true, 0},
		{6, "bob", true, 0},
		{6, "joe", false, 0},
		{1, "zoe", false, 9 * time.Second},
		{1, "eva", false, 7 * time.Second},
		{1, "may", false, 3 * time.Second},
	} {
		d := takeAt(t, e, c.rule, c.uid, nil)
		if a := &d.Answers[0]; d.Allowed() != c.allowed || (a.Ban != nil) != (c.retry > 0) || a.Ban != nil && a.Retry != c.retry {
			t.Errorf("%s at rule %d: %v, retry %v; want allowed %v, retry %v", c.uid, c.rule, d.Verdict, a.Retry, c.allowed, c.retry)
		}
	}
	added := 0
	for add(deny(1, fmt.Sprint("u", added))) {
		if added++; added > manyExceptions {
			t.Fatal("more and more are added, each of which costs more")
		}
	}
	for i := range added {
		if takeAt(t, e, 1, fmt.Sprint("u", i), nil).Allowed() {
			t.Fatalf("u%d is allowed", i)
		}
	}
	list.Set(all)
	if !takeAt(t, e, 1, "bob", nil).Allowed() || takeAt(t, e, 1, "ann", nil).Allowed() {
		t.Error("Set keeps what was added, or loses what it sets")
	}
	if !add(deny(1, "bob")) || takeAt(t, e, 1, "bob", nil).Allowed() {
		t.Error("nothing is added after Set")
	}
}

// BenchmarkDecideWithExceptions decides calls that meet none of many exceptions. The
// difference of the two is the price of the look-up.
func BenchmarkDecideWithExceptions(b *testing.B) {
	for _, n := range []int{0, manyExceptions} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			set, list := exceptionSet(b), new(engine.Exceptions)
			e := engine.New(set, engine.WithExceptions(list))
			all := make([]engine.Exception, n)
			for i := range all {
				all[i] = exceptionOf(b, set, 1, fmt.Sprint("u", i), engine.Exception{Kind: engine.ExceptDeny, Until: now + 1})
			}
			list.Set(all)
			calls := make([]engine.Call, 4096)
			for i := range calls {
				p := new(rules.Params)
				p.Set("a", "1")
				p.Set("uid", fmt.Sprint("v", i))
				calls[i] = engine.Call{Op: engine.Browse, Now: now, Inputs: []engine.Input{{Params: p}}, Scratch: new(engine.Scratch)}
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := e.Decide(b.Context(), &calls[i%len(calls)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The exception of an identity is found until its end, and only at its rule.
func TestExceptionOfIdentity(t *testing.T) {
	set, list := exceptionSet(t), new(engine.Exceptions)
	e := engine.New(set, engine.WithExceptions(list))
	list.SetClock(func() int64 { return now })
	lasting := exceptionOf(t, set, 2, "ann", engine.Exception{Kind: engine.ExceptAllow, Until: now + 1})
	ended := exceptionOf(t, set, 2, "bob", engine.Exception{Kind: engine.ExceptAllow, Until: now})
	list.Set([]engine.Exception{lasting, ended})
	for _, c := range []struct {
		rule int64
		uid  string
		want string
	}{{2, "ann", lasting.ID}, {2, "bob", ""}, {2, "eve", ""}, {3, "ann", ""}} {
		asked := exceptionOf(t, set, c.rule, c.uid, engine.Exception{}).Match
		id := ""
		if x := e.Exception(&asked); x != nil {
			id = x.ID
		}
		if id != c.want {
			t.Errorf("rule %d, %s: %q; want %q", c.rule, c.uid, id, c.want)
		}
	}
	for _, e := range []*engine.Engine{nil, {}, engine.New(set)} {
		if x := e.Exception(&lasting.Match); x != nil {
			t.Errorf("without exceptions: %+v", x)
		}
	}
}
