package redis_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/store/storetest/machine"
)

// entry returns an entry whose counter ends left ms after now.
func entry(tag, left int64, body string) string {
	text := binary.BigEndian.AppendUint64(nil, uint64(tag))[3:]
	text = append(text, binary.BigEndian.AppendUint64(nil, uint64(now+left))[2:]...)
	return string(binary.BigEndian.AppendUint16(text, uint16(len(body)))) + body
}

func countRule(subject string, number int64) store.Rule {
	return store.Rule{Subject: []byte(subject), Return: number, Method: store.Count, Weight: 1, Time: 60, Count: 1000}
}

// TestManyRulesMayShareACounter checks that plain takes of few and of many rules, of one
// subject or of one number, notice that the last rule has the counter of the first.
func TestManyRulesMayShareACounter(t *testing.T) {
	r := storetest.StartServer(t).Open(t)
	for _, n := range []int{2, 3, 8, 9, 10, 100, store.MaxRules} {
		for _, shares := range []bool{false, true} {
			for kind, rule := range map[string]func(i int) store.Rule{
				"one subject": func(i int) store.Rule { return countRule(fmt.Sprint("s", n, shares), int64(i)) },
				"one number":  func(i int) store.Rule { return countRule(fmt.Sprint("n", n, shares, i), 1) },
			} {
				p := &store.Plan{Op: store.Take, Zone: time.UTC}
				for i := range n {
					one := rule(i)
					if shares && i == n-1 {
						one = rule(0)
					}
					one.Count = 1
					p.Sets = append(p.Sets, store.Set{Allows: true, Rules: []store.Rule{one}})
				}
				var a store.Answers
				if err := r.Evaluate(t.Context(), p, &a); err != nil {
					t.Fatal(err)
				}
				if last := a.Sets[n-1].Decider >= 0; p.Allowed(&a) == shares || last != shares {
					t.Errorf("%d rules of %s: the last one refuses: %v; want %v", n, kind, last, shares)
				}
			}
		}
	}
}

// TestPlainTakesStoreTheSame carries out the same takes and settlements as plain ones and by
// the functions for all requests, on values that hold counters of several rules and
// methods. Both answer like the model and store the same bytes.
func TestPlainTakesStoreTheSame(t *testing.T) {
	server := storetest.StartServer(t)
	client := server.Client()
	defer client.Close()
	dialogues(t, 100, 10_000)
	zones := machine.Zones(t, "Asia/Shanghai", "America/New_York")
	n, receipts := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		var both [2]*redis.Store
		for i := range both {
			prefix := fmt.Sprintf("%d-%d", n, i)
			r, err := redis.Open(redis.Options{URL: server.URL(), Prefix: prefix, Budget: time.Minute, Linger: time.Hour, Refusals: -1})
			if err != nil {
				rt.Fatal(err)
			}
			if i == 1 {
				r.WithoutPlain()
			}
			defer r.Close()
			both[i] = r
		}
		model := machine.NewModel()
		at := int64(1_793_505_600_000) + rapid.Int64Range(-90_000_000, 90_000_000).Draw(rt, "begin")
		for step := range rapid.IntRange(1, 8).Draw(rt, "steps") {
			at += rapid.OneOf(machine.Move, rapid.Just(int64(90_000_000))).Draw(rt, "move")
			next := severalPlan
			switch rapid.IntRange(0, 6).Draw(rt, "other") {
			case 0:
				next = machine.Plan // which may leave counters of other methods
			case 1, 2:
				next = overdraftPlan
			case 3:
				next = forgettingPlan
			}
			var plans []*store.Plan
			for range rapid.IntRange(1, 6).Draw(rt, "calls") {
				plans = append(plans, next(rt, at, rapid.SampledFrom(zones).Draw(rt, "zone")))
			}
			var got [2][]store.Answers
			for i, r := range both {
				got[i] = make([]store.Answers, len(plans))
				if err := r.EvaluateTogether(plans, got[i]); err != nil {
					rt.Fatalf("step %d: %v", step, err)
				}
			}
			var made []*machine.Receipt
			for k, p := range plans {
				want := model.Evaluate(p)
				made = append(made, model.Receipt)
				for i := range both {
					if !machine.Alike(want, got[i][k].Sets) {
						rt.Fatalf("step %d, call %d, without plain ones %v: %s: it differs from the model (-model +store):\n%s", step, k+1, i == 1, machine.Describe(p), cmp.Diff(want, machine.Normalize(&got[i][k]).Sets))
					}
				}
			}
			for subject := range 6 {
				var values [2]string
				for i, r := range both {
					values[i], _ = client.Get(context.Background(), redis.Key(r.Prefix(), string([]byte{byte(subject)}))).Result() // "" if there is none
				}
				if values[0] != values[1] {
					rt.Fatalf("step %d: of subject %d plain takes store\n%x, the others\n%x", step, subject, values[0], values[1])
				}
			}
			for k := range plans {
				var values [2]string
				for i, r := range both {
					if receipt := got[i][k].Receipt; receipt != "" {
						key := strings.Replace(redis.Key(r.Prefix(), "u"), "{u}", "{"+redis.ReceiptTag+"}"+receipt[1:], 1)
						stored, err := client.Get(context.Background(), key).Result()
						if err != nil {
							rt.Fatal(err)
						}
						values[i] = strings.ReplaceAll(stored, r.Prefix(), "p")
					}
				}
				if made[k] != nil && rapid.Bool().Draw(rt, "settles") {
					settleBoth(rt, model, made[k], both, [2]string{got[0][k].Receipt, got[1][k].Receipt}, at)
				}
				if values[0] != values[1] {
					rt.Fatalf("step %d, call %d: the receipt of a plain take is\n%x, else\n%x", step, k+1, values[0], values[1])
				}
				receipts += len(values[0])
			}
		}
		for _, r := range both {
			server.CheckExpiries(t, r.Prefix())
			if err := r.Clear(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	if receipts == 0 {
		t.Error("no take has made a receipt")
	}
}

// TestReceiptsOfForgottenCounts settles takes of 5 hits after a refund or a reset at the same
// instant: only the value of the counter says that the window is another one.
func TestReceiptsOfForgottenCounts(t *testing.T) {
	server := storetest.StartServer(t)
	r := countRule("u", 1)
	r.Weight, r.Settle = 5, 600
	for name, c := range map[string]struct {
		ops     []store.Op
		receipt int // which take is settled
		used    int64
		hits    int64
	}{
		"a refund":                     {[]store.Op{store.Take, store.Refund}, 0, 2, 0},
		"a take before a reset":        {[]store.Op{store.Take, store.Reset, store.Take}, 0, 9, 5},
		"a take after a reset":         {[]store.Op{store.Take, store.Reset, store.Take}, 1, 9, 9},
		"a reset":                      {[]store.Op{store.Take, store.Reset}, 0, 9, 0},
		"a take, after another":        {[]store.Op{store.Take, store.Take}, 0, 2, 7},
		"more than a counter can hold": {[]store.Op{store.Take}, 0, 9_007_199_254_740_991, 9_007_199_254_740_991},
	} {
		for _, plain := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/plain %v", name, plain), func(t *testing.T) {
				s := openRig(t, server)
				if !plain {
					s.WithoutPlain()
				}
				var receipts []string
				for _, op := range c.ops {
					var a store.Answers
					if err := s.Evaluate(t.Context(), &store.Plan{Op: op, Now: now, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{r}}}}, &a); err != nil {
						t.Fatal(err)
					}
					if op == store.Take {
						receipts = append(receipts, a.Receipt)
					}
				}
				use := store.Use{Concerns: true, Given: true, Hits: c.used}
				settled, err := s.Settle(t.Context(), &store.Settlement{Receipt: receipts[c.receipt], Now: now, Zone: time.UTC, Judge: &storetest.Judge{Use: use}})
				if err != nil || !settled.Known {
					t.Fatalf("known: %v, %v", settled.Known, err)
				}
				if a := s.do(store.Peek, now, r); a.Hits != c.hits || a.Banned {
					t.Errorf("%d hits, banned: %v; want %d", a.Hits, a.Banned, c.hits)
				}
			})
		}
	}
}

// settleBoth settles a receipt of the model and of both stores.
func settleBoth(rt *rapid.T, model *machine.Model, r *machine.Receipt, both [2]*redis.Store, receipts [2]string, at int64) {
	use := store.Use{Concerns: true, Given: true, Hits: rapid.SampledFrom([]int64{0, 1, 2, 5, store.MaxWeight}).Draw(rt, "used")}
	want := model.Settle(r, use, &store.Plan{Op: store.Update, Now: at, Zone: time.UTC})
	for i, s := range both {
		got, err := s.Settle(context.Background(), &store.Settlement{Receipt: receipts[i], Now: at, Zone: time.UTC, Judge: &storetest.Judge{Use: use}})
		if err != nil || got.Known != want {
			rt.Fatalf("without plain ones %v: a settlement is known: %v, %v; want %v", i == 1, got.Known, err, want)
		}
	}
}

// severalPlan returns takes on count rules of a few subjects, many of which have
// several rules; rule 3 makes receipts.
func severalPlan(rt *rapid.T, now int64, zone *time.Location) *store.Plan {
	p := countPlan(rt, now, zone)
	for i := range p.Sets {
		for j := range p.Sets[i].Rules {
			r := &p.Sets[i].Rules[j]
			r.Return = rapid.SampledFrom([]int64{1, 1, 2, 3}).Draw(rt, "return")
			if rapid.IntRange(0, 2).Draw(rt, "few") > 0 {
				r.Subject = []byte{0}
			}
			if r.Return == 3 {
				r.Settle = 600
			}
		}
	}
	return machine.Unify(p)
}

// forgettingPlan returns refunds and resets of what severalPlan takes.
func forgettingPlan(rt *rapid.T, now int64, zone *time.Location) *store.Plan {
	p := severalPlan(rt, now, zone)
	p.Op = rapid.SampledFrom([]store.Op{store.Refund, store.Reset}).Draw(rt, "op")
	return p
}

// overdraftPlan returns takes on rules with overdrafts and without bans.
func overdraftPlan(rt *rapid.T, now int64, zone *time.Location) *store.Plan {
	p := countPlan(rt, now, zone)
	for i := range p.Sets {
		for j := range p.Sets[i].Rules {
			r := &p.Sets[i].Rules[j]
			r.Overdraft, r.Ban, r.Shadow = true, 0, false
		}
	}
	return p
}
