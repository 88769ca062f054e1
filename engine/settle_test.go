package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

// receiptRules are rules of every kind that settles.
const receiptRules = `[settings]
timezone : UTC
[rules]
rule : [hold] [uid=+] [time=60; count=2] [result=2; return=1]
rule : [count] [uid=+] [time=60; count=100; settle=60] [result=2; return=2]
rule : [count] [uid=+] [time=60; count=9; settle=60; used=response.kb] [result=2; return=3]
rule : [count] [response.status=401; uid=+] [time=60; count=2] [result=2; return=4]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

func pairs(list ...string) *rules.Params {
	p := new(rules.Params)
	for i := 0; i < len(list); i += 2 {
		p.Set(list[i], list[i+1])
	}
	return p
}

// peekAt returns the hits that a rule has counted for uid 7.
func peekAt(t *testing.T, e *engine.Engine, number int64) int64 {
	t.Helper()
	d, err := e.Decide(context.Background(), &engine.Call{Op: engine.Peek, Rule: number, Inputs: []engine.Input{{Params: pairs("uid", "7")}}})
	if err != nil {
		t.Fatal(err)
	}
	return d.Answers[0].Hits
}

func takeHits(t *testing.T, e *engine.Engine, hits uint64) *engine.Decision {
	t.Helper()
	d, err := e.Decide(context.Background(), &engine.Call{Op: engine.Take, Inputs: []engine.Input{{Params: pairs("uid", "7"), Hits: hits}}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSettleByTheRulesInForce(t *testing.T) {
	e := engine.New(parse(t, receiptRules, rules.Options{}))
	d := takeHits(t, e, 2)
	if d.Receipt == "" || !engine.ValidReceipt(d.Receipt) {
		t.Fatalf("the receipt is %q", d.Receipt)
	}
	// Rule 1 is gone, and rule 4 counts another status by then.
	text := strings.Replace(receiptRules, "rule : [hold] [uid=+] [time=60; count=2] [result=2; return=1]\n", "", 1)
	e.Swap(parse(t, strings.Replace(text, "status=401", "status=500", 1), rules.Options{}))
	got, err := e.Settle(context.Background(), &engine.Settlement{Receipt: d.Receipt, Hits: 40, HasHits: true, Response: pairs("response.kb", "2e+00", "response.status", "401", "uid", "8")})
	if err != nil || !got.Known {
		t.Fatalf("settled: %+v, %v", got, err)
	}
	e.Swap(parse(t, receiptRules, rules.Options{}))
	for number, want := range map[int64]int64{1: 2, 2: 40, 3: 2, 4: 0} {
		if hits := peekAt(t, e, number); hits != want {
			t.Errorf("rule %d counts %d, want %d", number, hits, want)
		}
	}
}

func TestDecisionSettlesAndRenews(t *testing.T) {
	e := engine.New(parse(t, receiptRules, rules.Options{}))
	ctx := context.Background()
	d := takeHits(t, e, 1)
	if err := d.Renew(ctx); err != nil {
		t.Errorf("renewed: %v", err)
	}
	if err := d.Settle(ctx, 5); err != nil || peekAt(t, e, 1) != 0 || peekAt(t, e, 2) != 5 {
		t.Errorf("settled: %v, %d held, %d counted; want 0 and 5", err, peekAt(t, e, 1), peekAt(t, e, 2))
	}
	if err := d.Settle(ctx, 5); !errors.Is(err, engine.ErrUnknownReceipt) {
		t.Errorf("settled twice: %v, want ErrUnknownReceipt", err)
	}
	if err := d.Renew(ctx); !errors.Is(err, engine.ErrUnknownReceipt) {
		t.Errorf("renewed after that: %v, want ErrUnknownReceipt", err)
	}
	var none *engine.Decision
	for _, d := range []*engine.Decision{none, {}, takeHits(t, engine.New(nil), 1)} {
		if err := errors.Join(d.Settle(ctx, 1), d.Renew(ctx)); err != nil {
			t.Errorf("without a receipt: %v, want nil", err)
		}
	}
	if err := d.Settle(ctx, engine.MaxHits+1); !engine.IsInvalid(err) {
		t.Errorf("settled with too many hits: %v, want an InvalidError", err)
	}
}

// leaving is a store whose callers leave while it decides.
type leaving struct {
	*memory.Store
	leave context.CancelFunc
}

func (l *leaving) Evaluate(ctx context.Context, p *store.Plan, a *store.Answers) error {
	err := l.Store.Evaluate(ctx, p, a)
	if l.leave != nil {
		l.leave()
	}
	return err
}

// TestCallersThatLeave checks that a take is undone if its caller left before the answer,
// because nobody will settle it, and that a settlement is carried out nevertheless.
func TestCallersThatLeave(t *testing.T) {
	m := memory.New(memory.Options{})
	defer m.Close()
	s := &leaving{Store: m}
	e := engine.New(parse(t, receiptRules, rules.Options{}), wiring.CountIn(s))
	ctx, leave := context.WithCancel(context.Background())
	s.leave = leave
	if d, err := e.Decide(ctx, &engine.Call{Op: engine.Take, Inputs: []engine.Input{{Params: pairs("uid", "7")}}}); !errors.Is(err, context.Canceled) {
		t.Errorf("decided: %+v, %v; want the error of the context", d, err)
	}
	s.leave = nil
	for number := int64(1); number <= 4; number++ {
		if hits := peekAt(t, e, number); hits != 0 {
			t.Errorf("rule %d counts %d for a caller that left, want 0", number, hits)
		}
	}
	if open, _ := m.Receipts(); open != 0 {
		t.Errorf("%d receipts are open, want 0", open)
	}
	d := takeHits(t, e, 2)
	if got, err := e.Settle(ctx, &engine.Settlement{Receipt: d.Receipt, Hits: 3, HasHits: true}); err != nil || !got.Known {
		t.Errorf("a settlement whose caller left: %+v, %v", got, err)
	}
	if hits := peekAt(t, e, 2); hits != 3 {
		t.Errorf("%d hits are counted, want 3", hits)
	}
}

// TestSettlementsAreObserved checks what metrics and logs see.
func TestSettlementsAreObserved(t *testing.T) {
	var seen []string
	record := func(name string) func(*engine.Settlement, engine.Settled, error) {
		return func(s *engine.Settlement, got engine.Settled, err error) {
			word := "unknown"
			if got.Known {
				word = "known"
			}
			if err != nil {
				word = "error"
			}
			seen = append(seen, name+" at "+s.Door+" "+word)
		}
	}
	e := engine.New(parse(t, receiptRules, rules.Options{}), engine.ObserveSettlements(record("settled"), record("renewed")))
	d, ctx := takeHits(t, e, 2), context.Background()
	_, _ = e.Renew(ctx, &engine.Settlement{Receipt: d.Receipt, Door: "a"})
	_, _ = e.Settle(ctx, &engine.Settlement{Receipt: d.Receipt, Door: "b"})
	_, _ = e.Settle(ctx, &engine.Settlement{Receipt: d.Receipt, Door: "c"})
	_, _ = e.Settle(ctx, &engine.Settlement{Receipt: "forged", Door: "d"})
	want := "renewed at a known, settled at b known, settled at c unknown, settled at d unknown"
	if got := strings.Join(seen, ", "); got != want {
		t.Errorf("observed\n%s, want\n%s", got, want)
	}
}

// deferring is a store whose Redis is away: settlements wait.
type deferring struct{ store.Store }

func (deferring) Settle(context.Context, *store.Settlement) (store.Settled, error) {
	return store.Settled{Deferred: true}, nil
}

// TestSettlementsThatWaitAreKnown settles while Redis is away: the receipt is known.
func TestSettlementsThatWaitAreKnown(t *testing.T) {
	local := memory.New(memory.Options{})
	defer local.Close()
	e := engine.New(parse(t, receiptRules, rules.Options{}), wiring.CountIn(deferring{local}))
	d := takeHits(t, e, 2)
	if got, err := e.Settle(context.Background(), &engine.Settlement{Receipt: d.Receipt}); err != nil || !got.Known || !got.Deferred {
		t.Errorf("settled: %+v, %v; want a settlement that waits", got, err)
	}
	if err := d.Settle(context.Background(), 3); err != nil {
		t.Errorf("the decision is settled: %v; want nil", err)
	}
}
