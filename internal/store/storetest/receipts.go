package storetest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/store"
)

// RunReceipts checks every case of takes with receipts on a new store.
func RunReceipts(t *testing.T, open func(t *testing.T) store.Store) {
	for _, table := range [][]receiptCase{estimates, leakEstimates, bucketEstimates, holdCases, outcomes, receiptCases, markedReceipts} {
		for _, c := range table {
			t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
		}
	}
	t.Run("50 settlements of one receipt", func(t *testing.T) { checkSettledOnce(t, open(t)) })
	t.Run("malformed receipts", func(t *testing.T) { checkMalformedReceipts(t, open(t)) })
}

// receiptCase is a sequence of steps on a new store.
type receiptCase struct {
	name  string
	steps []receiptStep
}

// receiptStep is a plan, or an operation on the receipt that an earlier plan was given
// under a label, and the expected answer. An answer to a plan ends in "receipt" if it
// has one.
type receiptStep struct {
	at    int64 // ms after noon
	op    store.Op
	label string
	sets  []store.Set // of a plan
	use   store.Use   // of a settlement
	want  string
}

// The operations on receipts.
const (
	settle   store.Op = 101
	renew    store.Op = 102
	withdraw store.Op = 103 // cancels the take
)

// Judge settles every part of a receipt alike, but passes over the rules in Gone.
type Judge struct {
	store.Use
	Gone []int64 // numbers
}

// Judge returns the use of the rule with this number.
func (j *Judge) Judge(number int64, _ store.Method) store.Use {
	if slices.Contains(j.Gone, number) {
		return store.Use{}
	}
	return j.Use
}

// used returns a use of n hits.
func used(n int64) store.Use { return store.Use{Concerns: true, Given: true, Hits: n} }

// The uses without hits: none was given, the outcome calls for a charge, and the rule is
// gone.
var (
	unsaid  = store.Use{Concerns: true}
	charged = store.Use{Concerns: true, Charge: true}
	gone    = store.Use{}
)

func (c *receiptCase) run(t *testing.T, s store.Store) {
	given := map[string]*store.Answers{}
	for i := range c.steps {
		st := &c.steps[i]
		if got := st.carryOut(t, s, given); got != st.want {
			t.Fatalf("step %d, at %d:\n got %s\nwant %s", i, st.at, got, st.want)
		}
	}
}

// carryOut carries out the step and returns its answer.
func (st *receiptStep) carryOut(t *testing.T, s store.Store, given map[string]*store.Answers) string {
	t.Helper()
	ctx, now := context.Background(), noon+st.at
	from := given[st.label]
	if from == nil {
		from = &store.Answers{Receipt: store.NewReceipt(store.KeptInProcess)}
	}
	var got store.Settled
	var err error
	switch st.op {
	case settle:
		got, err = s.Settle(ctx, &store.Settlement{Receipt: from.Receipt, Now: now, Zone: Noon(), Judge: &Judge{Use: st.use}})
	case renew:
		got, err = s.Renew(ctx, &store.Renewal{Receipt: from.Receipt, Now: now})
	case withdraw:
		copied := *from // a caller may repeat it
		err = s.Cancel(ctx, &store.Plan{Op: store.Take, Now: now, Zone: Noon(), Sets: st.sets}, &copied)
		got.Known = true
	default:
		return st.evaluate(t, s, given)
	}
	switch {
	case err != nil:
		t.Fatalf("at %d: %v", st.at, err)
	case got.Known:
		return "ok"
	}
	return "unknown"
}

func (st *receiptStep) evaluate(t *testing.T, s store.Store, given map[string]*store.Answers) string {
	t.Helper()
	p, a := &store.Plan{Op: st.op, Now: noon + st.at, Zone: Noon(), Sets: st.sets}, new(store.Answers)
	if err := s.Evaluate(context.Background(), p, a); err != nil {
		t.Fatalf("at %d: %v", st.at, err)
	}
	var got []string
	for i := range a.Sets {
		got = append(got, describe(&a.Sets[i]))
	}
	if (a.Receipt != "") != (a.Undo != nil) {
		t.Errorf("at %d: the receipt is %q, and Undo is %v", st.at, a.Receipt, a.Undo)
	}
	if a.Receipt != "" {
		got = append(got, "receipt")
		if !store.ValidReceipt(a.Receipt) {
			t.Errorf("at %d: the receipt is malformed: %q", st.at, a.Receipt)
		}
		given[st.label] = a
	}
	return strings.Join(got, " | ")
}

// settling returns the rule with a settle of a minute.
func settling(r store.Rule) store.Rule {
	r.Settle = 60
	return r
}

// outcome returns the rule as an outcome rule.
func outcome(r store.Rule) store.Rule {
	r.Settle, r.Outcome = 600, true
	return r
}

func hold(seconds, count int64) store.Rule { return rule(store.Hold, 1, seconds, count) }

// checkSettledOnce settles one receipt from many callers at once.
func checkSettledOnce(t *testing.T, s store.Store) {
	p, a := &store.Plan{Op: store.Take, Now: noon, Zone: Noon(), Sets: one(weighing(40, settling(count(60, 100))))}, new(store.Answers)
	if err := s.Evaluate(context.Background(), p, a); err != nil {
		t.Fatal(err)
	}
	known := make(chan bool)
	for range 50 {
		go func() {
			got, err := s.Settle(context.Background(), &store.Settlement{Receipt: a.Receipt, Now: noon + 1, Zone: Noon(), Judge: &Judge{Use: used(41)}})
			if err != nil {
				t.Error(err)
			}
			known <- got.Known
		}()
	}
	n := 0
	for range 50 {
		if <-known {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d of 50 settlements were carried out, want 1", n)
	}
	p = &store.Plan{Op: store.Peek, Now: noon + 2, Zone: Noon(), Sets: one(settling(count(60, 100)))}
	if err := s.Evaluate(context.Background(), p, a); err != nil || a.Sets[0].Hits != 41 {
		t.Errorf("%d hits are counted, want 41; error %v", a.Sets[0].Hits, err)
	}
}

// checkMalformedReceipts settles and renews texts that are no receipts of the store.
func checkMalformedReceipts(t *testing.T, s store.Store) {
	p, a := &store.Plan{Op: store.Take, Now: noon, Zone: Noon(), Sets: one(hold(60, 1))}, new(store.Answers)
	if err := s.Evaluate(context.Background(), p, a); err != nil {
		t.Fatal(err)
	}
	texts := []string{"", "x", a.Receipt[1:], a.Receipt[:len(a.Receipt)-1], a.Receipt + "A", strings.ToLower(a.Receipt), strings.Repeat("A", 4000), "\x00{}\n", a.Receipt + "\n", store.NewReceipt('x')}
	for _, text := range texts {
		if text == a.Receipt {
			continue
		}
		settled, err := s.Settle(context.Background(), &store.Settlement{Receipt: text, Now: noon, Zone: Noon(), Judge: &Judge{Use: used(0)}})
		renewed, fault := s.Renew(context.Background(), &store.Renewal{Receipt: text, Now: noon})
		if settled.Known || renewed.Known || err != nil || fault != nil {
			t.Errorf("%q: settled %v, error %v; renewed %v, error %v", text, settled, err, renewed, fault)
		}
	}
	if got, err := s.Settle(context.Background(), &store.Settlement{Receipt: a.Receipt, Now: noon, Zone: Noon(), Judge: &Judge{Use: used(0)}}); err != nil || !got.Known {
		t.Errorf("the receipt after that: %v, error %v", got, err)
	}
}
