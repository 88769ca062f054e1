package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/rescue"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

// rescued returns an engine whose Redis is unavailable.
func rescued(t *testing.T, lines string, options ...engine.Option) *engine.Engine {
	t.Helper()
	server := storetest.StartServer(t)
	server.Kill()
	rescue := storetest.OpenRescue(t, redis.Options{URL: server.URL()}, rescue.Options{})
	return engine.New(parse(t, withResults(lines), rules.Options{}), append(options, wiring.CountIn(rescue))...)
}

// While Redis is unavailable, the strictest policy of the rules down to the decider
// applies. Shadow rules have no policy.
func TestStrictestFailPolicyApplies(t *testing.T) {
	e := rescued(t, `
rule : [count]  [a=+]         [time=60; count=1;] [result=2; return=1; fail=allow]
rule : [count]  [b=+]         [time=60; count=1;] [result=2; return=2; fail=rescue]
rule : [count]  [c=+]         [time=60; count=9;] [result=2; return=3; fail=gateway]
rule : [count]  [d=+]         [time=60; count=9;] [result=2; return=4; fail=deny]
rule : [count]  [e=+]         [time=60; count=1;] [result=2; return=5; fail=deny; shadow=1]
rule : [count]  [f=+]         [time=60; count=1;] [result=2; return=6]
rule : [direct] [black=1]     [time=1; count=0;]  [result=2; return=7]
rule : [count]  [g=+]         [time=60; count=9;] [result=2; return=8; fail=deny]`)
	const (
		allow   = "allow"
		deny    = "deny"
		away    = "deny by policy"
		gateway = "gateway"
	)
	for _, c := range []struct {
		name  string
		pairs []string
		want  [2]string // of the first request and of the second
	}{
		{"allow lets pass beyond the limit", []string{"a", "1"}, [2]string{allow, allow}},
		{"rescue counts in process", []string{"b", "1"}, [2]string{allow, deny}},
		{"rules below the decider do not count", []string{"b", "1", "g", "1"}, [2]string{deny, deny}},
		{"no policy is rescue", []string{"f", "1"}, [2]string{allow, deny}},
		{"gateway lets the gateway decide", []string{"c", "1"}, [2]string{gateway, gateway}},
		{"deny refuses", []string{"d", "1"}, [2]string{away, away}},
		{"shadow rules have no policy", []string{"e", "1"}, [2]string{allow, allow}},
		{"rescue is stricter than allow", []string{"a", "2", "b", "2"}, [2]string{allow, deny}},
		{"deny is stricter than gateway", []string{"c", "3", "d", "3"}, [2]string{away, away}},
		{"allow does not bypass a black list", []string{"a", "4", "black", "1"}, [2]string{deny, deny}},
		{"requests without a counter need no store", []string{"none", "1"}, [2]string{allow, allow}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, want := range c.want {
				d, err := e.Decide(context.Background(), &engine.Call{Op: engine.Take, Inputs: []engine.Input{input(1, c.pairs...)}})
				if err != nil {
					t.Fatal(err)
				}
				got := d.Verdict.String()
				switch {
				case d.Unavailable:
					got = gateway
				case d.Verdict == rules.Deny && d.Refusal().Status == 503:
					got = away
				}
				if got != want {
					t.Errorf("request %d: %s; want %s", i+1, got, want)
				}
			}
		})
	}
}

// Rules without fail= take the policy of their door; for rules with fail=, the stricter
// of both applies.
func TestFailPoliciesOfDoors(t *testing.T) {
	doors := map[string]rules.FailPolicy{"A": rules.FailAllow, "R": rules.FailRescue, "G": rules.FailGateway, "D": rules.FailDeny}
	e := rescued(t, `
rule : [count]  [a=+]     [time=60; count=1;] [result=2; return=1; fail=allow]
rule : [count]  [r=+]     [time=60; count=1;] [result=2; return=2; fail=rescue]
rule : [count]  [g=+]     [time=60; count=1;] [result=2; return=3; fail=gateway]
rule : [count]  [d=+]     [time=60; count=1;] [result=2; return=4; fail=deny]
rule : [count]  [u=+]     [time=60; count=1;] [result=2; return=5]
rule : [count]  [s=+]     [time=60; count=1;] [result=2; return=6; shadow=1]
rule : [direct] [black=1] [time=1; count=0;]  [result=2; return=7]`, engine.WithPolicies(doors))
	// The outcomes of the second request at doors without a policy and with
	// allow, rescue, gateway and deny.
	for name, want := range map[string][5]string{
		"a":     {"allow", "allow", "deny", "gateway", "503"},
		"r":     {"deny", "deny", "deny", "gateway", "503"},
		"g":     {"gateway", "gateway", "gateway", "gateway", "503"},
		"d":     {"503", "503", "503", "503", "503"},
		"u":     {"deny", "allow", "deny", "gateway", "503"},
		"s":     {"allow", "allow", "allow", "allow", "allow"},
		"black": {"deny", "deny", "deny", "deny", "deny"},
		"none":  {"allow", "allow", "allow", "allow", "allow"},
	} {
		for i, door := range []string{"", "A", "R", "G", "D"} {
			call := &engine.Call{Door: door, Op: engine.Take, Inputs: []engine.Input{input(1, name, "1", "door", door)}}
			if name != "black" {
				call.Inputs[0] = input(1, name, "at "+door)
			}
			got := ""
			for range 2 {
				got = outcomeOf(t, e, call)
			}
			if got != want[i] {
				t.Errorf("rule %s at door %q: %s; want %s", name, door, got, want[i])
			}
		}
	}
}

// The policies also decide what gateways get that hold shares: of several rules the strictest one
// does, and `gateway` leaves them what they have.
func TestFailPoliciesOfShares(t *testing.T) {
	e := rescued(t, `
rule : [token] [a=+] [time=1; count=100; burst=200; lease=20%] [result=2; return=1; fail=allow]
rule : [token] [r=+] [time=1; count=100; burst=200; lease=20%] [result=2; return=2; fail=rescue]
rule : [token] [g=+] [time=1; count=100; burst=200; lease=20%] [result=2; return=3; fail=gateway]
rule : [token] [d=+] [time=1; count=100; burst=200; lease=20%] [result=2; return=4; fail=deny]
rule : [token] [u=+] [time=1; count=100; burst=200; lease=20%] [result=2; return=5]
rule : [token] [s=+] [time=1; count=100; burst=200; lease=20%] [result=2; return=6; fail=deny; shadow=1]`,
		engine.WithPolicies(engine.Policies{"A": rules.FailAllow, "G": rules.FailGateway, "D": rules.FailDeny}))
	outcomeOf(t, e, &engine.Call{Op: engine.Take, Inputs: []engine.Input{input(1, "r", "0")}}) // which finds that Redis is away
	const lasts = 7 * time.Second
	for _, c := range []struct {
		door  string
		pairs []string
		want  engine.AssignmentKind
		by    int64 // the return code of the rule that is named
	}{
		{"", []string{"a", "1"}, engine.AssignAllow, 1},
		{"", []string{"r", "1"}, engine.AssignShare, 2},
		{"", []string{"g", "1"}, engine.AssignKeep, 3},
		{"", []string{"d", "1"}, engine.AssignDeny, 4},
		{"", []string{"u", "1"}, engine.AssignShare, 5},
		{"", []string{"u", "2", "s", "2"}, engine.AssignShare, 5},
		{"", []string{"a", "3", "r", "3"}, engine.AssignShare, 2},
		{"", []string{"a", "4", "d", "4"}, engine.AssignDeny, 4},
		{"", []string{"g", "5", "d", "5"}, engine.AssignDeny, 4},
		{"A", []string{"u", "6"}, engine.AssignAllow, 5},
		{"A", []string{"r", "6"}, engine.AssignShare, 2},
		{"A", []string{"d", "6"}, engine.AssignDeny, 4},
		{"G", []string{"a", "7"}, engine.AssignKeep, 1},
		{"D", []string{"u", "8"}, engine.AssignDeny, 5},
		{"D", []string{"a", "8"}, engine.AssignDeny, 1},
		{"D", []string{"none", "8"}, engine.AssignAllow, 0},
	} {
		t.Run(c.door+strings.Join(c.pairs, " "), func(t *testing.T) {
			call := &engine.Call{Door: c.door, Op: engine.Take, Inputs: []engine.Input{input(1, c.pairs...)}}
			a, err := e.Assign(t.Context(), call, &engine.Usage{Holder: "edge-1", Reported: true, Denied: 5, Lasts: lasts})
			if err != nil {
				t.Fatal(err)
			}
			var by int64
			if a.Rule != nil {
				by = a.Rule.Return
			}
			if a.Kind != c.want || by != c.by {
				t.Errorf("%v by rule %d; want %v by %d", a.Kind, by, c.want, c.by)
			}
			if a.Lasts != lasts && a.Kind != engine.AssignKeep {
				t.Errorf("it lasts for %v; want %v", a.Lasts, lasts)
			}
		})
	}
}

// A limit of 0 refuses everything, as at other doors; of a small one there are no shares, as the
// answer says.
func TestSmallLimitsAreNotShared(t *testing.T) {
	e := engine.New(parse(t, withResults(`
rule : [count] [y=+] [time=60; count=100] [result=2; return=5]
rule : [count] [u=+] [time=60; count=param lim else 0; lease=20%] [result=2; return=1]
rule : [token] [v=+] [time=60; count=param lim else 0; lease=20%] [result=2; return=2]
rule : [token] [w=+] [time=61; count=param lim else 0; burst=10; lease=20%] [result=2; return=3]
rule : [base]  [x=+] [time=60; count=param lim else 0; base=5] [result=2; return=4]`), rules.Options{}))
	for _, c := range []struct {
		pairs        []string
		want         engine.AssignmentKind
		word, reason string
	}{
		{[]string{"u", "1"}, engine.AssignDeny, "", ""},
		{[]string{"v", "1"}, engine.AssignDeny, "", ""},
		{[]string{"w", "1"}, engine.AssignDeny, "", ""},
		{[]string{"u", "2", "lim", "0"}, engine.AssignDeny, "", ""},
		{[]string{"u", "2", "lim", "19"}, engine.AssignNone, "count", "a share needs a count of 20 at least"},
		{[]string{"u", "2", "lim", "20"}, engine.AssignShare, "", ""},
		{[]string{"v", "2", "lim", "5"}, engine.AssignNone, "count", "a share needs a count of 6 at least"},
		{[]string{"v", "2", "lim", "9"}, engine.AssignNone, "burst", "a share needs a burst of 10 at least"},
		{[]string{"v", "2", "lim", "10"}, engine.AssignShare, "", ""},
		{[]string{"w", "2", "lim", "6"}, engine.AssignNone, "count", "a share needs a count of 7 at least"},
		{[]string{"w", "2", "lim", "7"}, engine.AssignShare, "", ""},
		{[]string{"x", "1"}, engine.AssignNone, "base", ""},
		{[]string{"y", "1", "u", "3"}, engine.AssignDeny, "", ""},
		{[]string{"y", "1", "u", "3", "lim", "20"}, engine.AssignNone, "lease", ""},
	} {
		call := &engine.Call{Op: engine.Take, Inputs: []engine.Input{input(1, c.pairs...)}}
		a, err := e.Assign(t.Context(), call, &engine.Usage{Holder: "edge-1", Reported: true, Lasts: 7 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if a.Kind != c.want || a.Rule == nil || a.Kind == engine.AssignDeny && a.Lasts != 7*time.Second {
			t.Errorf("%v: %v for %v by %v; want %v", c.pairs, a.Kind, a.Lasts, a.Rule, c.want)
		}
		if a.Word != c.word || a.Reason != c.reason {
			t.Errorf("%v: the word %q, %q; want %q, %q", c.pairs, a.Word, a.Reason, c.word, c.reason)
		}
	}
}

// outcomeOf decides a call and returns a word for the outcome.
func outcomeOf(t *testing.T, e *engine.Engine, c *engine.Call) string {
	t.Helper()
	d, err := e.Decide(context.Background(), c)
	switch {
	case err != nil:
		t.Fatal(err)
	case d.Unavailable:
		return "gateway"
	case d.Verdict == rules.Deny && d.Refusal().Status == 503:
		return "503"
	}
	return d.Verdict.String()
}

// An override that no rule matches has the policy of its door.
func TestFailPolicyOfAnOverride(t *testing.T) {
	e := rescued(t, `rule : [count] [x=+] [time=60; count=1;] [result=2; return=1]`,
		engine.WithPolicies(engine.Policies{"A": rules.FailAllow, "D": rules.FailDeny}))
	for door, want := range map[string]string{"": "deny", "A": "allow", "D": "503"} {
		call := &engine.Call{Door: door, Op: engine.Take, Inputs: []engine.Input{input(1, "y", "1")}}
		call.Inputs[0].Override = &engine.Override{Count: 1, Seconds: 60, Entries: []string{"door", door}}
		got := ""
		for range 2 {
			got = outcomeOf(t, e, call)
		}
		if got != want {
			t.Errorf("at door %q: %s; want %s", door, got, want)
		}
	}
}

// Fail policies also apply to the verdicts of the complete operations.
func TestFailPoliciesOfCompleteAnswers(t *testing.T) {
	e := rescued(t, `rule : [count] [x=+] [time=60; count=9;] [result=2; return=1]`, engine.WithPolicies(engine.Policies{"D": rules.FailDeny, "G": rules.FailGateway}))
	for _, op := range []engine.Op{engine.Complete, engine.CompleteTake} {
		for door, want := range map[string]string{"": "allow", "D": "503", "G": "gateway"} {
			if got := outcomeOf(t, e, &engine.Call{Door: door, Op: op, Inputs: []engine.Input{input(1, "x", "1")}}); got != want {
				t.Errorf("operation %d at door %q: %s; want %s", op, door, got, want)
			}
		}
	}
}

// A rule with fail=allow refuses in no operation while Redis is unavailable.
func TestFailAllowNeverRefusesWithoutRedis(t *testing.T) {
	e := rescued(t, `
rule : [count] [x=+] [time=60; count=1;] [result=2; return=1; fail=allow]
rule : [count] [x=+] [time=60; count=3;] [result=2; return=2]`)
	for i, want := range []string{"allow", "allow", "allow", "deny"} {
		for _, op := range []engine.Op{engine.Browse, engine.Complete, engine.CompleteTake} {
			if got := outcomeOf(t, e, &engine.Call{Op: op, Inputs: []engine.Input{input(1, "x", "1")}}); got != want {
				t.Errorf("request %d, operation %d: %s; want %s", i+1, op, got, want)
			}
		}
	}
}

// Requests that a policy refuses are not counted, just as if a limit refused them.
func TestRequestsRefusedByPoliciesAreNotCounted(t *testing.T) {
	for _, op := range []engine.Op{engine.Take, engine.CompleteTake} {
		e := rescued(t, `
rule : [count] [x=+]         [time=60; count=2;] [result=2; return=1]
rule : [count] [x=+]         [time=60; count=2;] [result=2; return=2; shadow=1]
rule : [count] [x=+; away=g] [time=60; count=9;] [result=2; return=3; fail=gateway]
rule : [count] [x=+; away=d] [time=60; count=9;] [result=2; return=4; fail=deny]
rule : [count] [x=+]         [time=60; count=9;] [result=2; return=5; fail=deny; shadow=1]`)
		refused := []engine.Input{input(1, "x", "1", "away", "g"), input(1, "x", "1", "away", "d")}
		for range 3 {
			for i, want := range []string{"gateway", "503"} {
				if got := outcomeOf(t, e, &engine.Call{Op: op, Inputs: refused[i : i+1]}); got != want {
					t.Errorf("operation %d: %s; want %s", op, got, want)
				}
			}
			// If one of several inputs is refused, none is counted.
			if got := outcomeOf(t, e, &engine.Call{Op: op, Inputs: []engine.Input{input(1, "x", "1"), refused[1]}}); got != "503" {
				t.Errorf("operation %d over two inputs: %s; want 503", op, got)
			}
		}
		for i, want := range []string{"allow", "allow", "deny"} {
			if got := outcomeOf(t, e, &engine.Call{Op: op, Inputs: []engine.Input{input(1, "x", "1")}}); got != want {
				t.Errorf("operation %d, request %d after the refused ones: %s; want %s", op, i+1, got, want)
			}
		}
	}
}

func TestDenyIsStricterThanGatewayOverInputs(t *testing.T) {
	e := rescued(t, `
rule : [count] [g=+] [time=60; count=9;] [result=2; return=1; fail=gateway]
rule : [count] [d=+] [time=60; count=9;] [result=2; return=2; fail=deny]
rule : [count] [r=+] [time=60; count=9;] [result=2; return=3]`)
	d, err := e.Decide(context.Background(), &engine.Call{Op: engine.Take, Inputs: []engine.Input{input(1, "r", "1"), input(1, "g", "1"), input(1, "d", "1")}})
	if err != nil {
		t.Fatal(err)
	}
	if d.Unavailable || d.Verdict != rules.Deny || d.Refuser != 2 {
		t.Errorf("rescue, gateway and deny: %+v; want the third input denied", d)
	}
}

func TestTooManyCountersAreAnInvalidCall(t *testing.T) {
	e := newEngine(t, `rule : [count] [k=+] [time=60; count=9;] [result=2; return=1]`)
	call := &engine.Call{Op: engine.Take, Now: noon}
	for range store.MaxRules + 1 {
		call.Inputs = append(call.Inputs, input(1, "k", "a"))
	}
	if _, err := e.Decide(context.Background(), call); !engine.IsInvalid(err) {
		t.Errorf("error %v; want an InvalidError", err)
	}
}
