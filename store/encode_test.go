package store

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestIntegersComeBack(t *testing.T) {
	for _, n := range []int64{0, 1, 127, 128, 255, 256, 65535, 65536, 1 << 31, 1<<32 - 1, 1 << 32, MaxCounter, math.MaxInt64} {
		c := new(call)
		c.int(n)
		r := reader{rest: string(c.blob)}
		if got := r.int(); got != n || r.err() != nil {
			t.Errorf("%d comes back as %d, %v", n, got, r.err())
		}
	}
	for text, want := range map[string]int64{
		"\xff": -1, "\xe0": -32, "\xd0\x80": -128, "\xd1\xff\x00": -256, "\xd2\x80\x00\x00\x00": -1 << 31,
		"\xd3\x80\x00\x00\x00\x00\x00\x00\x00": math.MinInt64, "\xcc\xff": 255,
	} {
		r := reader{rest: text}
		if got := r.int(); got != want || r.err() != nil {
			t.Errorf("%x is read as %d, %v, want %d", text, got, r.err(), want)
		}
	}
}

func TestPack(t *testing.T) {
	leak := Rule{Subject: []byte("a"), Return: 7, Method: Leak, Weight: 300, Time: 2, Count: 1000}
	p := &Plan{Op: Update, Now: 9, Zone: time.UTC, Sets: []Set{
		{Refund: true, Rules: []Rule{leak, {Subject: []byte("b"), Return: 1, Method: Count, Time: Day, Count: 5, Shadow: true}}},
		{Allows: true, Rules: []Rule{leak, {Subject: []byte("a"), Return: 2, Method: Token, Time: 1, Count: 3, Burst: 4, Base: 9, Allows: true}}},
	}}
	c := new(call)
	for range 2 { // used again, it is the same
		c.pack("p", p, []int64{1, 2})
	}
	if diff := cmp.Diff([]string{"p:1:{a}", "p:1:{b}", "p:1:{a}:59"}, c.keys); diff != "" {
		t.Errorf("the keys (-want +got):\n%s", diff)
	}
	want := []int64{
		9, int64(Update), 2, 2, 1, 2, // two subjects, two days
		2,                                     // sets
		1, 2, 1, 3, 59, 300, 2000, 1000, 0, 0, // refund, two rules; a leak rule
		2, 0, 9, 0, 0, 5, 0, 1, // a shadow rule of the calendar day
		2, 2, 1, 3, 59, 300, 2000, 1000, 0, 0, // allows, two rules
		1, 0, 20, 0, 1000, 3, 4, 2,
	}
	r := reader{rest: string(c.blob[5:])}
	var got []int64
	for len(r.rest) > 0 {
		got = append(got, r.int())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the numbers (-want +got):\n%s", diff)
	}
	if head := c.blob[:5]; head[0] != 0xdd || int(head[4]) != len(want) {
		t.Errorf("the array's head is %x, want that of %d numbers", head, len(want))
	}
}

// FuzzReply reads what no script of ours sends: an error or an answer within
// the plan's rules, never a crash.
func FuzzReply(f *testing.F) {
	f.Add("\x01\xcf\x00\x00\x01\x9e\x83\x0e\x1a\x00\xff\x00\x05\x04\xcd\xea\x60\xff\x00\x00\x01\x01")
	f.Add("\x00\x07")
	f.Add("")
	p := &Plan{Sets: []Set{{Rules: make([]Rule, 2)}, {}}}
	f.Fuzz(func(t *testing.T, text string) {
		c, a := &call{plan: p}, new(Answers)
		a.reset(len(p.Sets))
		if _, err := c.reply(text, a); err != nil {
			return
		}
		for i, set := range a.Sets {
			for _, j := range append([]int{set.Decider, set.Reporter}, set.Refusals...) {
				if j < -1 || j >= len(p.Sets[i].Rules) {
					t.Errorf("%x: set %d tells of rule %d", text, i, j)
				}
			}
		}
	})
}
