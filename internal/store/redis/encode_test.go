package redis

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/internal/store"
)

// unpacked returns the numbers in an argument of the script.
func unpacked(t *testing.T, text []byte) []int64 {
	t.Helper()
	var list []int64
	for len(text) > 0 {
		head := text[0]
		text = text[1:]
		if head < 0x80 {
			list = append(list, int64(head))
			continue
		}
		size := 1 << (head - 0xcc)
		if head < 0xcc || head > 0xcf || len(text) < size {
			t.Fatalf("%#x begins no number", head)
		}
		wide := make([]byte, 8)
		copy(wide[8-size:], text)
		list, text = append(list, int64(binary.BigEndian.Uint64(wide))), text[size:]
	}
	return list
}

func TestNumbersUnpackAsPacked(t *testing.T) {
	want := []int64{0, 1, 127, 128, 255, 256, 65535, 65536, 1 << 31, 1<<32 - 1, 1 << 32, store.MaxCounter, math.MaxInt64}
	var n numbers
	for _, i := range want {
		n.add(i)
	}
	if diff := cmp.Diff(want, unpacked(t, n.bytes)); diff != "" || n.count != len(want) {
		t.Errorf("%d numbers (-want +got):\n%s", n.count, diff)
	}
}

func TestPack(t *testing.T) {
	leak := store.Rule{Subject: []byte("a"), Return: 7, Method: store.Leak, Weight: 300, Time: 2, Count: 1000}
	token := store.Rule{Subject: []byte("a"), Return: 2, Method: store.Token, Time: 1, Count: 3, Burst: 4, Base: 9, Allows: true}
	monthly := store.Rule{Subject: []byte("b"), Return: 3, Method: store.Count, Unit: store.Month, From: 4, Count: 6}
	epoch := store.Rule{Subject: []byte("b"), Return: 4, Method: store.Count, Unit: store.Epoch, Time: 7, Count: 6}
	base := store.Rule{Subject: []byte("b"), Return: 5, Method: store.Base, Time: 8, Count: 6, Base: 2}
	daily := store.Rule{Subject: []byte("b"), Return: 1, Method: store.Count, Time: store.Day, Count: 5, Shadow: true}
	p := &store.Plan{Op: store.Update, Now: 9, Zone: time.UTC, Sets: []store.Set{{Refund: true, Rules: []store.Rule{leak, daily}}, {Allows: true, Rules: []store.Rule{leak, token}}}}
	q := &store.Plan{Op: store.Take, Now: 9, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{token}}}}
	other := &store.Plan{Op: store.Take, Now: 9, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{token}}}}
	other.Sets[0].Rules[0].Subject = []byte("c")
	calendar := &store.Plan{Op: store.Take, Now: 9, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: []store.Rule{monthly, epoch, base, daily}}}}
	calls := []*Call{new(Call), new(Call), new(Call), new(Call)}
	b := new(bundle)
	for range 2 { // a bundle that is used again packs the same
		b.empty()
		for i, plan := range []*store.Plan{p, q, other, calendar} {
			calls[i].pack(keyBegin("p", "", false), ReceiptTag, plan)
			b.add(calls[i])
		}
		b.pack(&Evaluator{linger: 1000})
	}
	var keys []string
	for _, n := range b.names {
		keys = append(keys, n.String())
	}
	if diff := cmp.Diff([]string{"p:2:{a}", "p:2:{b}", "p:2:{c}", "p:2:{a}:59"}, keys); diff != "" {
		t.Errorf("the keys (-want +got):\n%s", diff)
	}
	want := []int64{
		9, 1000, 3, 2, 3, 4, // the clock, linger; subjects, spans, shapes, requests
		0, 0, 86_400_000, 172_800_000, // the days around the clock; those before the epoch begin with it
		0, 0, 259_200_000, 2_937_600_000, // the months that begin on the day 4
		1, 1, int64(store.Update), 2, // a shape of two sets, which uses days
		1, 2, 59, 2000, 300, 1000, 0, 0, 9, 1, 0, 5, 0, 1, // refund; a leak rule, a shadow rule of the calendar day
		2, 2, 59, 2000, 300, 1000, 0, 0, 20, 1000, 0, 3, 4, 2, // allows
		0, int64(store.Take), 1, 2, 1, 20, 1000, 0, 3, 4, 2, // the shape of the next two
		2, 2, 1, int64(store.Take), 1, 2, 4, // a shape that uses months and days
		25, 1, 0, 6, 0, 0, 33, 7999, 0, 6, 0, 0, 42, 8002, 0, 6, 2, 0, 9, 2, 0, 5, 0, 1,
		1, 1, 4, 2, 1, 4, 1, // a shape; subjects, and the leak rules' log
		2, 1,
		2, 3,
		3, 2, 2, 2, 2,
	}
	if diff := cmp.Diff(want, unpacked(t, b.blob.bytes[5:])); diff != "" {
		t.Errorf("the numbers (-want +got):\n%s", diff)
	}
	if head := b.blob.bytes[:5]; head[0] != 0xdd || int(head[4]) != len(want) {
		t.Errorf("the array's head is %x, want that of %d numbers", head, len(want))
	}
}

// FuzzReply reads arbitrary replies: each must lead to an error or to an answer
// about rules of the plan, never to a panic.
func FuzzReply(f *testing.F) {
	const admitted, decided = "\x00\x00\x01\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\xea\x60", "\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xea\x60\x00\x00\x00\x00\x00\xea\x61\x00\x01\x00\x01"
	f.Add("\x01\x01\x9e\x83\x0e\x1a\x00" + admitted + "\x00\xff\xff" + strings.Repeat("\x00", 14) + decided + "\x00\x01")
	f.Add("\x00\x01\x9e\x83\x0e\x1a\x00")
	f.Add("\x02\x01\x9e\x83\x0e\x1a\x00words")
	f.Add("")
	plans := []*store.Plan{{Sets: []store.Set{{Rules: make([]store.Rule, 2)}, {}}}, {Sets: []store.Set{{Rules: make([]store.Rule, 2)}}}}
	f.Fuzz(func(t *testing.T, text string) {
		b := new(bundle)
		for _, p := range plans {
			c := &Call{sets: len(p.Sets)}
			c.done = make(chan struct{}, 1)
			b.add(c)
		}
		b.names = []*name{{text: []byte("k")}}
		if b.deliver(text, nil) != wantsNothing {
			return
		}
		for i, c := range b.calls {
			<-c.done
			a := new(store.Answers)
			a.Reset(len(plans[i].Sets))
			if c.err != nil || c.Read(plans[i], a) != nil {
				continue
			}
			for k, set := range a.Sets {
				for _, j := range append([]int{set.Decider, set.Reporter}, set.Refusals...) {
					if j < -1 || j >= len(plans[i].Sets[k].Rules) {
						t.Errorf("%x: set %d reports rule %d", text, k, j)
					}
				}
			}
		}
	})
}
