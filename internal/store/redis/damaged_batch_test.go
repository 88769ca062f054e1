package redis_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/store/storetest/machine"
)

// damagedRules returns four count rules and a token rule of one subject. The last count
// rule's counter is full.
func damagedRules(subject string) []store.Rule {
	list := make([]store.Rule, 0, 5)
	for i, count := range []int64{10, 10, 2 * store.MaxWeight, 5} {
		list = append(list, store.Rule{Subject: []byte(subject), Return: int64(i + 1), Method: store.Count, Weight: int64(i + 2), Time: 60 * int64(i+1), Count: count})
	}
	list[3].Weight = store.MaxWeight
	return append(list, store.Rule{Subject: []byte(subject), Return: 5, Method: store.Token, Weight: 3, Time: 60, Count: 10, Burst: 10})
}

// damagedValues returns damaged forms of a value with the counters of damagedRules and an
// entry that no rule uses, by name.
func damagedValues(whole string) map[string]string {
	values := map[string]string{}
	for n := range len(whole) {
		values[fmt.Sprintf("cut to %d bytes", n)] = whole[:n]
	}
	var entries []string // without the first 7 bytes
	for at := 7; at < len(whole); {
		next := at + 13 + int(binary.BigEndian.Uint16([]byte(whole[at+11:])))
		entries = append(entries, whole[at:next])
		at = next
	}
	for i, one := range entries {
		for _, length := range []uint16{0, 1, 6, 7, 8, 20, 32, 0xffff} {
			lies := one[:11] + string(binary.BigEndian.AppendUint16(nil, length)) + one[13:]
			values[fmt.Sprintf("entry %d claims %d bytes", i, length)] = strings.Replace(whole, one, lies, 1)
		}
		other := one[:13] + strings.Repeat("\x01", len(one)-13) // the same counter with other numbers
		values[fmt.Sprintf("entry %d again, at the end", i)] = whole + other
		values[fmt.Sprintf("entry %d again, at once", i)] = strings.Replace(whole, one, one+other, 1)
		if i+1 < len(entries) {
			values[fmt.Sprintf("entry %d again, behind the next", i)] = strings.Replace(whole, entries[i+1], entries[i+1]+other, 1)
		}
		for _, method := range []byte{0, 1, 4, 6, 7} {
			changed := one[:4] + string(one[4]&^7|method) + one[5:]
			values[fmt.Sprintf("entry %d of method %d", i, method)] = strings.Replace(whole, one, changed, 1)
		}
		values[fmt.Sprintf("entry %d without an end", i)] = strings.Replace(whole, one, one[:5]+"\xff\xff\xff\xff\xff\xff"+one[11:], 1)
	}
	for _, layout := range []string{"\x00", "\x01", "\x03", "\xff"} {
		values[fmt.Sprintf("layout %d", layout[0])] = layout + whole[1:]
	}
	values["nothing"], values["a byte too many"] = "", whole+"x"
	values["expires before its counters"] = whole[:1] + "\x00\x00\x00\x00\x00\x01" + whole[7:]
	values["expires never"] = whole[:1] + "\xff\xff\xff\xff\xff\xff" + whole[7:]
	var many strings.Builder
	for number := int64(100_000); number > 0; number-- { // comparing each with all others would take minutes
		many.WriteString(entry((number+100)*8+7, 3_600_000, ""))
	}
	values["many entries, out of order"] = whole[:7] + many.String() + whole[7:]
	return values
}

// soundTags returns the tags of the counters of a value that count: the first of each tag, with
// a body of the method's length and an end that a counter can have.
func soundTags(value string) map[int64]bool {
	sound, seen := map[int64]bool{}, map[int64]bool{}
	if len(value) < 7 || value[0] != 2 {
		return nil
	}
	for rest := value[7:]; rest != ""; {
		if len(rest) < 13 {
			return nil
		}
		tag := int64(binary.BigEndian.Uint64([]byte("\x00\x00\x00" + rest[:5])))
		length := int(binary.BigEndian.Uint16([]byte(rest[11:])))
		if len(rest) < 13+length {
			return nil
		}
		sound[tag] = sound[tag] || !seen[tag] && (tag%8 == 1 && length == 7 && rest[5] != 0xff || tag%8 == 4 && length == 32)
		seen[tag], rest = true, rest[13+length:]
	}
	return sound
}

// TestDamagedCountersInOneBatch carries out plain takes, weights of 0 and of 10^15 and other
// operations on values that are damaged in many ways, in batches that mix them. All are
// answered as if the counters that are not sound were absent, and no entry is lost that
// belongs to no rule.
func TestDamagedCountersInOneBatch(t *testing.T) {
	s := openRig(t, storetest.StartServer(t))
	ctx := context.Background()
	for _, r := range damagedRules("u") {
		for range 10 { // ten times MaxWeight is more than a counter can hold
			s.do(store.Update, now-1000, r)
			if r.Weight < store.MaxWeight {
				break
			}
		}
	}
	future := entry(8*9+7, 3_600_000, "future")
	values := damagedValues(s.value() + future)
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for ; len(names) > 0; names = names[min(len(names), 10):] {
		model := machine.NewModel()
		var plans []*store.Plan
		for _, name := range names[:min(len(names), 10)] {
			key := redis.Key(s.Prefix(), name)
			if err := s.client.Set(ctx, key, values[name], time.Minute).Err(); err != nil {
				t.Fatal(err)
			}
			rules, sound := damagedRules(name), soundTags(values[name])
			for _, r := range rules {
				for range 10 {
					if sound[r.Tag()] {
						model.Evaluate(&store.Plan{Op: store.Update, Now: now - 1000, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{r}}}})
					}
					if r.Weight < store.MaxWeight {
						break
					}
				}
			}
			plans = append(plans, damagedPlans(rules)...)
		}
		answers := make([]store.Answers, len(plans))
		if err := s.EvaluateTogether(plans, answers); err != nil {
			t.Fatal(err)
		}
		for i, p := range plans {
			if want := model.Evaluate(p); !machine.Alike(want, answers[i].Sets) {
				t.Errorf("%s, plan %d: it differs from the model (-model +store):\n%s", p.Sets[0].Rules[0].Subject, i%6, cmp.Diff(want, machine.Normalize(&answers[i]).Sets))
			}
		}
		for _, name := range names[:min(len(names), 10)] {
			value, err := s.client.Get(ctx, redis.Key(s.Prefix(), name)).Result()
			if err != nil {
				t.Fatal(err)
			}
			if soundTags(values[name]) != nil && strings.Contains(values[name], future) && !strings.Contains(value, future) {
				t.Errorf("%s: the entry of another program is lost from\n%x, which is\n%x", name, values[name], value)
			}
		}
	}
}

// damagedPlans returns six plans on the rules of damagedRules.
func damagedPlans(rules []store.Rule) []*store.Plan {
	plan := func(op store.Op, weight int64, sets ...[]store.Rule) *store.Plan {
		p := &store.Plan{Op: op, Now: now, Zone: time.UTC}
		for _, set := range sets {
			list := append([]store.Rule(nil), set...)
			for i := range list {
				list[i].Weight = weight
			}
			p.Sets = append(p.Sets, store.Set{Allows: true, Rules: list})
		}
		return p
	}
	return []*store.Plan{
		plan(store.Take, 1, rules[:3]),                         // plain
		plan(store.Take, 0, rules[:3]),                         // nothing
		plan(store.Take, store.MaxWeight, rules[2:3]),          // plain, with the greatest weight
		plan(store.Take, 1, rules[1:2], rules[:1], rules[3:4]), // which the last set usually refuses
		plan(store.Take, 1, rules[1:2], rules[4:]),             // of two methods
		plan(store.Peek, 1, rules[:1], rules[2:3], rules[4:]),
	}
}
