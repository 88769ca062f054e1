package redis_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	goredis "github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/store/storetest/machine"
)

// stored returns a value with these entries that expires an hour after now.
func stored(entries ...string) string {
	return string(binary.BigEndian.AppendUint64(nil, 2<<48|uint64(now+3_600_000))[1:]) + strings.Join(entries, "")
}

// entry returns an entry whose counter ends left ms after now.
func entry(tag, left int64, body string) string {
	text := binary.BigEndian.AppendUint64(nil, uint64(tag))[3:]
	text = append(text, binary.BigEndian.AppendUint64(nil, uint64(now+left))[2:]...)
	return string(binary.BigEndian.AppendUint16(text, uint16(len(body)))) + body
}

// TestCountPathTakesSingleCounters fixes which stored values keep a call on the
// short path of the script: one other value sends all calls of its batch through
// the general path.
func TestCountPathTakesSingleCounters(t *testing.T) {
	client := storetest.StartServer(t).Client()
	defer client.Close()
	const hits = "\x00\x00\x00\x00\x00\x00\x01"
	count := func(number int64) string { return entry(number*8+1, 60_000, hits) }
	for name, c := range map[string]struct {
		value   string
		general bool
	}{
		"nothing":                           {"", false},
		"the counter of the rule":           {stored(count(1)), false},
		"no entry":                          {stored(), true},
		"the counter of another rule":       {stored(count(3)), true},
		"a further counter":                 {stored(count(1), count(3)), true},
		"a counter of another method":       {stored(entry(4, 60_000, "a token bucket's..")), true},
		"a counter that outlives the value": {stored(entry(9, 7_200_000, hits)), true},
		"a body that is too long":           {stored(entry(9, 60_000, hits+"x")), true},
		"a truncated value":                 {stored(count(1))[:20], true},
		"a later layout":                    {"\x03" + stored(count(1))[1:], true},
		"a single byte":                     {"\x01", true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			client.FlushAll(ctx)
			if c.value != "" {
				client.Set(ctx, redis.Key("p", "u"), c.value, time.Minute)
			}
			p := takeOf(store.Set{Allows: true, Rules: []store.Rule{countRule("u", 1)}})
			if general := takesGeneralPath(t, client, p); general != c.general {
				t.Errorf("takes the general path: %v, want %v", general, c.general)
			}
		})
	}
}

// TestCountPathTakesPlainAdmittedTakes fixes which plans stay on the short path.
func TestCountPathTakesPlainAdmittedTakes(t *testing.T) {
	client := storetest.StartServer(t).Client()
	defer client.Close()
	with := func(change func(*store.Rule)) store.Rule {
		r := countRule("u", 1)
		change(&r)
		return r
	}
	one, settling := countRule("u", 1), with(func(r *store.Rule) { r.Settle = 600 })
	for name, c := range map[string]struct {
		plan    *store.Plan
		general bool
	}{
		"one rule":                      {takeOf(store.Set{Allows: true, Rules: []store.Rule{one}}), false},
		"rules of several subjects":     {takeOf(store.Set{Allows: true, Rules: []store.Rule{one, countRule("v", 2)}}), false},
		"several sets":                  {takeOf(store.Set{Allows: true, Rules: []store.Rule{one}}, store.Set{Allows: true, Rules: []store.Rule{countRule("v", 2)}}), false},
		"the same counter in two sets":  {takeOf(store.Set{Allows: true, Rules: []store.Rule{one}}, store.Set{Allows: true, Rules: []store.Rule{one}}), false},
		"a receipt":                     {takeOf(store.Set{Allows: true, Rules: []store.Rule{settling, countRule("v", 2)}}), false},
		"two parts of one counter":      {takeOf(store.Set{Allows: true, Rules: []store.Rule{settling}}, store.Set{Allows: true, Rules: []store.Rule{settling}}), true},
		"an outcome rule":               {takeOf(store.Set{Allows: true, Rules: []store.Rule{with(func(r *store.Rule) { r.Settle, r.Outcome = 600, true })}}), true},
		"two rules of one subject":      {takeOf(store.Set{Allows: true, Rules: []store.Rule{one, countRule("u", 2)}}), true},
		"the same, with one in between": {takeOf(store.Set{Allows: true, Rules: []store.Rule{one, countRule("v", 3), countRule("u", 2)}}), true},
		"a rule that refuses":           {takeOf(store.Set{Allows: true, Rules: []store.Rule{with(func(r *store.Rule) { r.Count = 0 })}}), true},
		"overdrafts that refuse":        {takeOf(store.Set{Allows: true, Rules: []store.Rule{overdraft("u", 1)}}, store.Set{Allows: true, Rules: []store.Rule{overdraft("v", 2)}}), false},
		"one beside a rule without":     {takeOf(store.Set{Allows: true, Rules: []store.Rule{one, overdraft("v", 2)}}), true},
		"one with a ban":                {takeOf(store.Set{Allows: true, Rules: []store.Rule{with(func(r *store.Rule) { r.Count, r.Overdraft, r.Ban = 0, true, 60 })}}), true},
		"a shadow rule":                 {takeOf(store.Set{Allows: true, Rules: []store.Rule{with(func(r *store.Rule) { r.Shadow = true })}}), true},
		"a weight of 0":                 {takeOf(store.Set{Allows: true, Rules: []store.Rule{with(func(r *store.Rule) { r.Weight = 0 })}}), true},
		"a set that denies":             {takeOf(store.Set{Rules: []store.Rule{one}}), true},
		"a set that refunds":            {takeOf(store.Set{Allows: true, Refund: true, Rules: []store.Rule{one}}), true},
		"a rule of another method":      {takeOf(store.Set{Allows: true, Rules: []store.Rule{with(func(r *store.Rule) { r.Method = store.Leak })}}), true},
	} {
		t.Run(name, func(t *testing.T) {
			client.FlushAll(context.Background())
			if general := takesGeneralPath(t, client, c.plan); general != c.general {
				t.Errorf("takes the general path: %v, want %v", general, c.general)
			}
		})
	}
}

func countRule(subject string, number int64) store.Rule {
	return store.Rule{Subject: []byte(subject), Return: number, Method: store.Count, Weight: 1, Time: 60, Count: 1000}
}

// overdraft returns a rule with an overdraft that refuses.
func overdraft(subject string, number int64) store.Rule {
	r := countRule(subject, number)
	r.Count, r.Overdraft = 0, true
	return r
}

func takeOf(sets ...store.Set) *store.Plan {
	return &store.Plan{Op: store.Take, Now: now, Zone: time.UTC, Sets: sets}
}

// takesGeneralPath reports whether the script carries out the plan on its general
// path.
func takesGeneralPath(t *testing.T, client *goredis.Client, p *store.Plan) bool {
	t.Helper()
	return repliesGeneral(t, client, redis.CountPath("p", p, general))
}

// general is what the script replies instead of taking its general path.
const general = "the general path"

func repliesGeneral(t *testing.T, client *goredis.Client, command []any) bool {
	t.Helper()
	reply, err := client.Do(context.Background(), command...).Text()
	if err != nil {
		t.Fatal(err)
	}
	return reply == general
}

// TestCountPathSettlesEstimates fixes which settlements stay on the short path.
func TestCountPathSettlesEstimates(t *testing.T) {
	server := storetest.StartServer(t)
	client := server.Client()
	defer client.Close()
	with := func(change func(*store.Rule)) store.Rule {
		r := countRule("u", 1)
		r.Settle = 600
		change(&r)
		return r
	}
	one := with(func(*store.Rule) {})
	for name, c := range map[string]struct {
		taken, before []store.Rule // before: counted before the settlement
		general       bool
	}{
		"one estimate":                  {taken: []store.Rule{one}},
		"two subjects":                  {taken: []store.Rule{one, with(func(r *store.Rule) { r.Subject = []byte("v") })}},
		"more was counted":              {taken: []store.Rule{one}, before: []store.Rule{one}},
		"two rules of one subject":      {taken: []store.Rule{one, with(func(r *store.Rule) { r.Return = 2 })}, general: true},
		"another counter under its key": {taken: []store.Rule{one}, before: []store.Rule{countRule("u", 2)}, general: true},
		"an estimate of 0":              {taken: []store.Rule{with(func(r *store.Rule) { r.Weight = 0 })}, general: true},
		"an estimate of leak":           {taken: []store.Rule{with(func(r *store.Rule) { r.Method = store.Leak })}, general: true},
	} {
		t.Run(name, func(t *testing.T) {
			client.FlushAll(context.Background())
			s := openRig(t, server)
			var a store.Answers
			for _, rules := range [][]store.Rule{c.before, c.taken} {
				if rules == nil {
					continue
				}
				if err := s.Evaluate(context.Background(), takeOf(store.Set{Allows: true, Rules: rules}), &a); err != nil {
					t.Fatal(err)
				}
			}
			settled := slices.Clone(c.taken)
			for i := range settled {
				settled[i].Weight = 0
			}
			if is := repliesGeneral(t, client, redis.CountPathSettles(s.Prefix(), a.Receipt, settled, now, general)); is != c.general {
				t.Errorf("takes the general path: %v, want %v", is, c.general)
			}
		})
	}
}

// TestBothPathsStoreTheSame carries out the same takes on both paths, on values
// that hold counters of several rules and methods. Both answer like the model and
// store the same bytes.
func TestBothPathsStoreTheSame(t *testing.T) {
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
			r, err := redis.Open(redis.Options{URL: server.URL(), Prefix: prefix, Budget: time.Minute, Linger: time.Hour, Refusals: -1, NoCountPath: i == 1})
			if err != nil {
				rt.Fatal(err)
			}
			defer r.Close()
			both[i] = r
		}
		model := machine.NewModel()
		at := int64(1_793_505_600_000) + rapid.Int64Range(-90_000_000, 90_000_000).Draw(rt, "begin")
		for step := range rapid.IntRange(1, 8).Draw(rt, "steps") {
			at += rapid.OneOf(machine.Move, rapid.Just(int64(90_000_000))).Draw(rt, "move")
			next := severalPlan
			switch rapid.IntRange(0, 5).Draw(rt, "other") {
			case 0:
				next = machine.Plan // which may leave counters of other methods
			case 1, 2:
				next = overdraftPlan
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
						rt.Fatalf("step %d, call %d, general path %v: %s: it differs from the model (-model +store):\n%s", step, k+1, i == 1, machine.Describe(p), cmp.Diff(want, machine.Normalize(&got[i][k]).Sets))
					}
				}
			}
			for subject := range 6 {
				var values [2]string
				for i, r := range both {
					values[i], _ = client.Get(context.Background(), redis.Key(r.Prefix(), string([]byte{byte(subject)}))).Result() // "" if there is none
				}
				if values[0] != values[1] {
					rt.Fatalf("step %d: of subject %d the short path stores\n%x, the general path\n%x", step, subject, values[0], values[1])
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
					rt.Fatalf("step %d, call %d: the receipt of the short path is\n%x, of the general path\n%x", step, k+1, values[0], values[1])
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

// settleBoth settles a receipt of the model and of both stores.
func settleBoth(rt *rapid.T, model *machine.Model, r *machine.Receipt, both [2]*redis.Store, receipts [2]string, at int64) {
	use := store.Use{Concerns: true, Given: true, Hits: rapid.SampledFrom([]int64{0, 1, 2, 5, store.MaxWeight}).Draw(rt, "used")}
	want := model.Settle(r, use, &store.Plan{Op: store.Update, Now: at, Zone: time.UTC})
	for i, s := range both {
		got, err := s.Settle(context.Background(), &store.Settlement{Receipt: receipts[i], Now: at, Zone: time.UTC, Judge: &storetest.Judge{Use: use}})
		if err != nil || got.Known != want {
			rt.Fatalf("general path %v: a settlement is known: %v, %v; want %v", i == 1, got.Known, err, want)
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
