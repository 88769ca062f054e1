package engine_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/rules"
)

// banOf returns a ban of requests with parameters, as alternating names and values.
func banOf(until int64, params ...string) engine.Exception {
	x := engine.Exception{ID: "ban-" + strings.Join(params, "-"), Kind: engine.ExceptBan, Until: until}
	for i := 0; i < len(params); i += 2 {
		x.Params = append(x.Params, rules.Param{Name: params[i], Value: params[i+1]})
	}
	return x
}

// A ban refuses each request that has all of its parameters, before any rule, until its end.
func TestBans(t *testing.T) {
	set, list := exceptionSet(t), new(engine.Exceptions)
	e := engine.New(set, engine.WithExceptions(list))
	list.Set([]engine.Exception{
		banOf(now+90_000, "uid", "ann"),
		banOf(now+10_000, "uid", "ann"),
		banOf(now+10_000, "a", "1", "uid", "bob"),
		banOf(now+10_000, "a", "1", "uid", "eve"),
		banOf(now+10_000, "uid@client-ip", "192.0.2.1"),
		banOf(now, "uid", "ian"), // it has ended
		banOf(now + 10_000),      // without parameters
	})
	for _, c := range []struct {
		name   string
		params []string
		retry  time.Duration // of the refusal; 0 for none
	}{
		{"the one that ends last", []string{"uid", "ann"}, 90 * time.Second},
		{"with other parameters, and a rule that would allow", []string{"a", "1", "uid", "ann", "ip", "192.0.2.7"}, 90 * time.Second},
		{"of a direct rule", []string{"a", "6", "uid", "ann"}, 90 * time.Second},
		{"with blanks, as rules compare values", []string{"uid", " ann "}, 90 * time.Second},
		{"both parameters", []string{"uid", "bob", "a", "1"}, 10 * time.Second},
		{"one of two", []string{"uid", "bob", "a", "2"}, 0},
		{"the other of two", []string{"a", "1", "uid", "zoe"}, 0},
		{"a value from a later source", []string{"a", "1", "uid@client-ip", "192.0.2.1"}, 10 * time.Second},
		{"the same value, claimed", []string{"a", "1", "uid", "192.0.2.1"}, 0},
		{"ended", []string{"a", "1", "uid", "ian"}, 0},
		{"nothing", nil, 0},
	} {
		p := new(rules.Params)
		for i := 0; i < len(c.params); i += 2 {
			p.SetNamed(c.params[i], c.params[i+1])
		}
		d, err := e.Decide(t.Context(), &engine.Call{Op: engine.Take, Now: now, Inputs: []engine.Input{{Params: p}}})
		if err != nil {
			t.Fatal(err)
		}
		a := &d.Answers[0]
		switch {
		case c.retry == 0:
			if a.Ban != nil {
				t.Errorf("%s: it is banned", c.name)
			}
		case d.Allowed(), a.Ban == nil, len(a.Exceptions) != 1, a.Exceptions[0] != a.Ban, a.Decider != nil, a.Retry != c.retry, d.Refusal().Status != http.StatusTooManyRequests:
			t.Errorf("%s: %+v", c.name, a)
		}
		headers := fmt.Sprint(d.ClientHeaders(nil, engine.Presentation{}))
		if want := fmt.Sprintf("{Retry-After %d}", int64(c.retry.Seconds())); c.retry > 0 && !strings.Contains(headers, want) {
			t.Errorf("%s: the headers are %s; want %s", c.name, headers, want)
		}
	}
}

// A ban counts nothing, refuses what it covers at every operation that decides, and lets the others
// of the call pass; refunds and operations without a verdict go on.
func TestBansByOperation(t *testing.T) {
	set, list := exceptionSet(t), new(engine.Exceptions)
	list.SetClock(func() int64 { return now })
	e := engine.New(set, engine.WithExceptions(list))
	params := func(uid string) *rules.Params {
		p := new(rules.Params)
		p.Set("a", "1")
		p.Set("uid", uid)
		return p
	}
	list.Set([]engine.Exception{banOf(now+1000, "uid", "ann")})
	if x := e.Ban(params("ann")); x == nil || e.Ban(params("bob")) != nil {
		t.Errorf("%v bans ann", x)
	}
	for op := engine.Take; op <= engine.Reset; op++ {
		d, err := e.Decide(t.Context(), &engine.Call{Op: op, Rule: 1, Now: now, Inputs: []engine.Input{{Params: params("bob")}, {Params: params("ann")}}})
		if err != nil {
			t.Fatalf("%v: %v", op, err)
		}
		if banned := d.Answers[1].Ban != nil; banned != op.Decides() || d.Allowed() == op.Decides() || d.Answers[0].Ban != nil {
			t.Errorf("%v: ann is banned: %v; %+v", op, banned, d)
		}
	}
	for name, in := range map[string]engine.Input{"refund": {Refund: true}, "charge of nothing": {Charge: true, NoHits: true}} {
		in.Params = params("ann")
		d, err := e.Decide(t.Context(), &engine.Call{Op: engine.Take, Now: now, Inputs: []engine.Input{in}})
		if err != nil || !d.Allowed() {
			t.Errorf("a %s: %+v, %v", name, d, err)
		}
	}
	list.Set(nil)
	for i := range 3 {
		d, err := e.Decide(t.Context(), &engine.Call{Op: engine.Take, Now: now, Inputs: []engine.Input{{Params: params("ann")}}})
		if err != nil || d.Allowed() != (i < 2) {
			t.Errorf("take %d after the ban: %+v, %v; want the whole limit of 2", i, d, err)
		}
	}
}

// BenchmarkDecideWithBans decides calls that no ban refuses: without exceptions, with one that is no
// ban, and with many bans. The first two cost the same.
func BenchmarkDecideWithBans(b *testing.B) {
	set := exceptionSet(b)
	many := make([]engine.Exception, manyExceptions)
	for i := range many {
		many[i] = banOf(now+1, "uid", "u"+strconv.Itoa(i))
	}
	for _, c := range []struct {
		name string
		list []engine.Exception
	}{
		{"none", nil},
		{"another exception", []engine.Exception{exceptionOf(b, set, 1, "u1", engine.Exception{Kind: engine.ExceptDeny, Until: now + 1})}},
		{"many bans", many},
	} {
		b.Run(c.name, func(b *testing.B) {
			list := new(engine.Exceptions)
			e := engine.New(set, engine.WithExceptions(list))
			list.Set(c.list)
			p := new(rules.Params)
			p.Set("a", "1")
			p.Set("uid", "v")
			call := engine.Call{Op: engine.Browse, Now: now, Inputs: []engine.Input{{Params: p}}, Scratch: new(engine.Scratch)}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Decide(b.Context(), &call); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
