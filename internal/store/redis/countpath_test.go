package redis_test

import (
	"context"
	"encoding/binary"
	"fmt"
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

// stored is a value of entries that ends an hour after now.
func stored(entries ...string) string {
	return string(binary.BigEndian.AppendUint64(nil, 1<<48|uint64(now+3_600_000))[1:]) + strings.Join(entries, "")
}

// entry is an entry of a tag that is as new after so many ms.
func entry(tag, left int64, body string) string {
	text := binary.BigEndian.AppendUint64(nil, uint64(tag))[3:]
	text = append(text, binary.BigEndian.AppendUint64(nil, uint64(now+left))[2:]...)
	return string(binary.BigEndian.AppendUint16(text, uint16(len(body)))) + body
}

// TestWhatGoesTheCountPath holds fast that a value sends a call the general way
// only if it is damaged: one such value costs all calls that have gathered.
func TestWhatGoesTheCountPath(t *testing.T) {
	client := storetest.StartServer(t).Client()
	defer client.Close()
	const hits = "\x00\x00\x00\x00\x00\x00\x01"
	count := func(number int64) string { return entry(number*8+1, 60_000, hits) }
	for name, c := range map[string]struct {
		value   string
		general bool
	}{
		"nothing":                     {"", false},
		"no entry":                    {stored(), false},
		"its own":                     {stored(count(1)), false},
		"another count":               {stored(count(3)), false},
		"its own in front":            {stored(count(1), count(3)), false},
		"its own at the end":          {stored(count(3), entry(4, 60_000, "a token bucket's.."), count(1)), false},
		"other methods alone":         {stored(entry(2, 60_000, "a base counter's bytes...."), entry(3, 60_000, "leak")), false},
		"one of a method to come":     {stored(entry(7, 60_000, "")), false},
		"one that was over yesterday": {stored(entry(17, -90_000_000, hits), count(1)), false},
		"one that outlives the value": {stored(count(1), entry(4, 7_200_000, "a token bucket's..")), true},
		"a body that is too long":     {stored(count(3), entry(9, 60_000, hits+"x")), true},
		"a value that is cut":         {stored(count(3), count(1))[:40], true},
		"a layout to come":            {"\x02" + stored(count(1), count(3))[1:], true},
		"too little":                  {"\x01", true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			client.FlushAll(ctx)
			if c.value != "" {
				client.Set(ctx, redis.Key("p", "u"), c.value, time.Minute)
			}
			if general := goesTheGeneralWay(t, client, 1); general != c.general {
				t.Errorf("one rule goes the general way: %v, want %v", general, c.general)
			}
			if general := goesTheGeneralWay(t, client, 1, 2, 3); general != c.general {
				t.Errorf("three rules go the general way: %v, want %v", general, c.general)
			}
		})
	}
}

// goesTheGeneralWay tells whether the script leaves a take to its general way,
// on count rules of these numbers on one subject.
func goesTheGeneralWay(t *testing.T, client *goredis.Client, numbers ...int64) bool {
	t.Helper()
	p := &store.Plan{Op: store.Take, Now: now, Zone: time.UTC, Sets: []store.Set{{Allows: true}}}
	for _, n := range numbers {
		p.Sets[0].Rules = append(p.Sets[0].Rules, store.Rule{Subject: []byte("u"), Return: n, Method: store.Count, Weight: 1, Time: 60, Count: 1000})
	}
	const general = "the general way"
	reply, err := client.Do(context.Background(), redis.CountPath("p", p, general)...).Text()
	if err != nil {
		t.Fatal(err)
	}
	return reply == general
}

// TestTheCountPathLeavesWhatTheGeneralWayLeaves has the two ways take the same
// on values that hold counters of several rules and methods. The answers are
// those of the model, and what is stored is the same to the last byte.
func TestTheCountPathLeavesWhatTheGeneralWayLeaves(t *testing.T) {
	server := storetest.StartServer(t)
	client := server.Client()
	defer client.Close()
	dialogues(t, 100, 10_000)
	zones := machine.Zones(t, "Asia/Shanghai", "America/New_York")
	n := 0
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
			if rapid.IntRange(0, 3).Draw(rt, "other") == 0 {
				next = machine.Plan // which may leave counters of other methods
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
			for k, p := range plans {
				want := model.Evaluate(p)
				for i := range both {
					if !machine.Alike(want, got[i][k].Sets) {
						rt.Fatalf("step %d, call %d, general way %v: %s: it differs from the model (-model +store):\n%s", step, k+1, i == 1, machine.Describe(p), cmp.Diff(want, machine.Normalize(&got[i][k]).Sets))
					}
				}
			}
			for subject := range 6 {
				var values [2]string
				for i, r := range both {
					values[i], _ = client.Get(context.Background(), redis.Key(r.Prefix(), string([]byte{byte(subject)}))).Result() // "" if there is none
				}
				if values[0] != values[1] {
					rt.Fatalf("step %d: of subject %d the count path leaves\n%x, the general way\n%x", step, subject, values[0], values[1])
				}
			}
		}
		for _, r := range both {
			server.CheckExpiries(t, r.Prefix())
			if err := r.Clear(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
}

// severalPlan takes on count rules of a few subjects, several of which share one.
func severalPlan(rt *rapid.T, now int64, zone *time.Location) *store.Plan {
	p := countPlan(rt, now, zone)
	for i := range p.Sets {
		for j := range p.Sets[i].Rules {
			r := &p.Sets[i].Rules[j]
			r.Return = rapid.SampledFrom([]int64{1, 1, 2, 3}).Draw(rt, "return")
			if rapid.IntRange(0, 2).Draw(rt, "few") > 0 {
				r.Subject = []byte{0}
			}
		}
	}
	return p
}
