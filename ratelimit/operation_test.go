package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/wire/wiretest"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/ratelimit"
)

// budgets are a budget whose charges may exceed it, one whose refused requests do, and a
// limit that records neither.
const budgets = `
[rules]
rule : [count] [budget=+] [time=3600; count=1000] [result=2; return=1]
rule : [count] [running=+] [time=3600; count=2; overdraft=1] [result=2; return=2]
rule : [token] [bucket=+] [time=3600; count=1; burst=10; overdraft=1] [result=2; return=3]
rule : [count] [dear=+] [time=3600; count=1000; cost=dear] [result=2; return=4]
rule : [direct] [act=black] [time=1; count=0;] [result=2; return=10]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// operate returns a descriptor of an operation about one parameter.
func operate(op, key, value string, hits int) string {
	return fmt.Sprintf(`{"entries": [{"key": %q, "value": %q}, {"key": "koala.op", "value": %q}], "hits_addend": "%d"}`, key, value, op, hits)
}

// step is a call about descriptors, and the codes of its reply.
type step struct {
	ask   []string
	codes string
}

// run makes the calls one after the other.
func (d *door) run(steps []step) {
	d.t.Helper()
	for i, s := range steps {
		if got := codesOf(d.ask(s.ask...)); got != s.codes {
			d.t.Errorf("step %d, %v: %s; want %s", i, s.ask, got, s.codes)
		}
	}
}

func TestChargesCountWhateverTheLimit(t *testing.T) {
	look := one("budget", "a", `"hits_addend": "0"`)
	open(t, budgets, nil).run([]step{
		{[]string{look}, "O"},
		{[]string{operate("charge", "budget", "a", 600)}, "O"},
		{[]string{look}, "O"},
		{[]string{operate("charge", "budget", "a", 600)}, "O"}, // beyond the budget
		{[]string{one("budget", "a")}, "V"},
		{[]string{operate("refund", "budget", "a", 201)}, "O"},
		{[]string{one("budget", "a")}, "O"}, // the thousandth
		{[]string{one("budget", "a")}, "V"},
	})
}

// Operations precede the other descriptors of their call, and are carried out even if
// these are refused.
func TestOperationsStandApartFromTheirCall(t *testing.T) {
	d := open(t, budgets, nil)
	black := one("act", "black")
	d.run([]step{
		{[]string{one("budget", "a"), operate("charge", "budget", "a", 1000)}, "VO"},
		{[]string{operate("refund", "budget", "a", 1000), black, operate("charge", "budget", "b", 1000)}, "OVO"},
		{[]string{one("budget", "a"), one("budget", "b")}, "OV"},
		// In their order: what is given back before the charge was not there.
		{[]string{operate("refund", "budget", "c", 500), operate("charge", "budget", "c", 1000), one("budget", "c")}, "OOV"},
		{[]string{operate("charge", "budget", "d", 1000), operate("refund", "budget", "d", 500), one("budget", "d")}, "OOO"},
	})
	reply := d.ask(operate("charge", "budget", "e", 1), one("act", "white"), black)
	if got := reply.DynamicMetadata.Fields["descriptor"].GetNumberValue(); got != 2 {
		t.Errorf("the metadata is of descriptor %v; want the one that is refused, 2", got)
	}
	if reply = d.ask(operate("charge", "budget", "e", 1)); verdictOf(reply) != "allow" {
		t.Errorf("the metadata of a charge is %v; want the verdict allow", reply.DynamicMetadata)
	}
}

// A refused request is recorded by an overdraft rule, and its end gives the hit back:
// as many may run as before.
func TestRefundsBalanceTheOverdraftsOfRefusedRequests(t *testing.T) {
	back := one("running", "a", `"is_negative_hits": true`)
	bucket := one("bucket", "a", `"hits_addend": "8"`)
	open(t, budgets, nil).run([]step{
		{[]string{one("running", "a")}, "O"},
		{[]string{one("running", "a")}, "O"},
		{[]string{one("running", "a")}, "V"},
		{[]string{back}, "O"}, // the end of the refused one
		{[]string{one("running", "a")}, "V"},
		{[]string{back}, "O"}, // that of this one
		{[]string{back}, "O"}, // and the first's
		{[]string{one("running", "a")}, "O"},
		{[]string{one("running", "a")}, "V"},

		{[]string{bucket}, "O"},
		{[]string{bucket}, "V"}, // 6 below empty
		{[]string{one("bucket", "a", `"hits_addend": "8"`, `"is_negative_hits": true`)}, "O"},
		{[]string{one("bucket", "a", `"hits_addend": "2"`)}, "O"},
		{[]string{one("bucket", "a")}, "V"},
	})
}

func TestHitsOfAnEntryAreCharged(t *testing.T) {
	charge := func(hits, more string) string {
		return `{"entries": [{"key": "budget", "value": "` + hits + `"}, {"key": "koala.op", "value": "charge"}, {"key": "koala.hits", "value": "` + hits + `"}]` + more + `}`
	}
	for hits, test := range map[string]struct {
		more string
		left uint32
	}{
		"600":              {``, 400},
		"2e+09":            {``, 0},
		"1000000000000000": {``, 0},
		"junk":             {``, 999}, // one, as without hits
		"-5":               {``, 999},
		"1000000000000001": {``, 999},
		"700":              {`, "hits_addend": "0"`, 1000},
		"800":              {`, "hits_addend": "100", "is_negative_hits": true`, 1000}, // gives back
	} {
		d := open(t, budgets, nil)
		if got := codesOf(d.ask(charge(hits, test.more))); got != "O" {
			t.Errorf("%s: %s; want OK", hits, got)
		}
		if got := d.ask(one("budget", hits, `"hits_addend": "0"`)).Statuses[0].LimitRemaining; got != test.left {
			t.Errorf("%s: %d remaining; want %d", hits, got, test.left)
		}
	}
}

// An operation that cannot be carried out is an error if its call has nothing else, and
// otherwise leaves the other descriptors as they are.
func TestOperationsThatFail(t *testing.T) {
	d := open(t, budgets, nil)
	tooLarge := `{"entries": [{"key": "dear", "value": "999999999"}, {"key": "koala.op", "value": "charge"}], "hits_addend": "999999999"}`
	for json, want := range map[string]codes.Code{
		tooLarge: codes.InvalidArgument,
		tooLarge + ", " + operate("charge", "budget", "a", 1000): codes.InvalidArgument,
		tooLarge + ", " + one("other", "x"):                      codes.OK,
		`{"entries": [{"key": "koala.op", "value": "chrage"}]}`:  codes.InvalidArgument,
	} {
		_, err := d.call(request(t, `{"domain": "lab", "descriptors": [`+json+`]}`))
		if got := status.Code(err); got != want {
			t.Errorf("%s: %v; want %v", json, err, want)
		}
	}
	if got := codesOf(d.ask(one("budget", "a"))); got != "V" {
		t.Errorf("the charge after one that failed: %s; want it carried out", got)
	}
	failing := open(t, budgets, func(o *ratelimit.Options) {
		o.Engine = engine.New(parse(t, budgets), wiring.CountIn(storetest.Failing{Err: errors.New("connection refused")}))
	})
	_, err := failing.call(request(t, `{"domain": "lab", "descriptors": [`+operate("charge", "budget", "a", 1)+`]}`))
	if status.Code(err) != codes.Unavailable {
		t.Errorf("without a store: %v; want Unavailable", err)
	}
}

// leaving is a store that notes whether the context of a step had ended.
type leaving struct {
	store.Store
	ended chan bool
}

func (s leaving) Evaluate(ctx context.Context, p *store.Plan, a *store.Answers) error {
	s.ended <- ctx.Err() != nil
	return s.Store.Evaluate(ctx, p, a)
}

// A charge is carried out even if its caller has left.
func TestChargeOutlivesItsCaller(t *testing.T) {
	counters := leaving{newClock().store(), make(chan bool, 1)}
	door := wiretest.Open(ratelimit.New(ratelimit.Options{Engine: engine.New(parse(t, budgets), wiring.CountIn(counters))}))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	charge := request(t, `{"domain": "lab", "descriptors": [`+operate("charge", "budget", "a", 1)+`]}`)
	if _, err := door.Call(ctx, wiretest.Marshal(t, charge)); err != nil {
		t.Fatal(err)
	}
	if <-counters.ended {
		t.Error("the charge was given the ended context of its caller")
	}
}

func TestOperationsInOtherModes(t *testing.T) {
	for mode, left := range map[engine.Mode]uint32{engine.ModeObserve: 400, engine.ModeOff: 1000} {
		modes := new(engine.Modes)
		modes.Set(map[string]engine.Mode{"ratelimit": mode})
		d := open(t, budgets, func(o *ratelimit.Options) {
			o.Engine = engine.New(parse(t, budgets), wiring.CountIn(newClock().store()), engine.WithModes(modes))
		})
		d.run([]step{{[]string{operate("charge", "budget", "a", 600), one("other", "x")}, "OO"}})
		modes.Set(map[string]engine.Mode{"ratelimit": engine.ModeEnforce})
		if got := d.ask(one("budget", "a", `"hits_addend": "0"`)).Statuses[0].LimitRemaining; got != left {
			t.Errorf("%s: %d remaining after a charge of 600; want %d", mode, got, left)
		}
	}
}
