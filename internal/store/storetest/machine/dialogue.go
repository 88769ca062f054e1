package machine

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/koalagate/koalagate/internal/store"
)

// shared are limits of which gateways share, one or several at a time.
var shared = []store.Rule{
	{Return: 1, Method: store.Token, Time: 1, Count: 20, Burst: 50, Lease: 200},
	{Return: 2, Method: store.Token, Time: 1, Count: 1000, Burst: 3000, Lease: 100},
	{Return: 3, Method: store.Token, Time: 7, Count: 5, Burst: 40, Lease: 200},
	{Return: 4, Method: store.Count, Time: 60, Count: 1000, Lease: 200},
	{Return: 5, Method: store.Count, Time: 60, Unit: store.Epoch, Count: 20_000, Lease: 50, Ban: 3},
	{Return: 6, Method: store.Token, Time: 3600, Count: 90_000, Burst: 90_000, Lease: 3},
}

// ShareDialogue lets gateways share limits of a store with each other and with other calls:
// gateways come, die, lose counts, leave and refuse by blanket rules, messages come late, and
// clocks run apart. In some dialogues the limits are used up most of the time, while the clock of
// the store steps back: what is given back then must not be admitted twice.
// name is a part of the subjects. It returns what happened.
func ShareDialogue(rt *rapid.T, s Sharer, now int64, name string) *Shares {
	first := rapid.IntRange(0, len(shared)-1).Draw(rt, "rule")
	rules := []store.Rule{shared[first]}
	if rapid.IntRange(0, 2).Draw(rt, "two rules") == 0 {
		rules = append(rules, shared[(first+1)%len(shared)])
	}
	usedUp := rapid.IntRange(0, 3).Draw(rt, "used up") == 0
	for i := range rules {
		rules[i].Subject, rules[i].Weight = fmt.Appendf(nil, "%s/%d", name, i), 1
		if usedUp {
			rules[i].Ban = 0 // the model does not know that a counter is empty after a ban
		}
	}
	slow := rapid.Bool().Draw(rt, "late messages")
	delay := func() int64 {
		if slow && rapid.IntRange(0, 9).Draw(rt, "late") == 0 {
			return int64(rapid.IntRange(0, 12_000).Draw(rt, "ms late"))
		}
		return int64(rapid.IntRange(0, store.OnTheWay).Draw(rt, "ms under way"))
	}
	f := NewShares(s, now+int64(rapid.IntRange(0, 60_000).Draw(rt, "begin")), rules, rapid.IntRange(1, 4).Draw(rt, "gateways"), delay, rt.Fatalf)
	apart := usedUp || rapid.IntRange(0, 3).Draw(rt, "clocks apart") == 0
	for i := range f.gateways {
		if apart {
			f.Drift(i, int64(rapid.IntRange(-9, 9).Draw(rt, "speed of callers")), int64(rapid.IntRange(-9, 9).Draw(rt, "speed")))
		}
	}
	for range rapid.IntRange(5, 60).Draw(rt, "steps") {
		if usedUp && rapid.IntRange(0, 5).Draw(rt, "uses up") == 0 {
			f.useUp()
		} else {
			f.step(rt)
		}
		switch jumps := rapid.IntRange(0, 19).Draw(rt, "jumps"); {
		case usedUp && jumps < 2:
			f.Jump(int64(rapid.IntRange(-9000, 0).Draw(rt, "back by ms")))
		case apart && jumps == 0:
			f.Jump(int64(rapid.IntRange(-9000, 9000).Draw(rt, "by ms")))
		}
	}
	return f
}

// step does one of the things that happen.
func (f *Shares) step(rt *rapid.T) {
	i, most := rapid.IntRange(0, f.Gateways()-1).Draw(rt, "gateway"), f.mostAsked()
	switch kind := rapid.IntRange(0, 99).Draw(rt, "step"); {
	case kind < 30:
		f.Ask(i, int64(rapid.IntRange(1, most).Draw(rt, "hits")))
	case kind < 45: // steady traffic
		for range rapid.IntRange(1, 30).Draw(rt, "times") {
			f.Ask(i, int64(rapid.IntRange(1, max(most/10, 1)).Draw(rt, "hits")))
			f.Pass(100)
		}
	case kind < 60:
		f.Take(rapid.IntRange(-1, len(f.rules)-1).Draw(rt, "rule"), int64(rapid.IntRange(1, 10).Draw(rt, "takes")))
	case kind < 64:
		f.useUp()
	case kind < 88:
		f.Pass(int64(rapid.IntRange(0, []int{300, 2000, 9000}[kind%3]).Draw(rt, "ms")))
	case kind < 90:
		f.Kill(i)
		f.Add()
	case kind < 91:
		f.Lose(i)
	case kind < 92:
		f.Return(i)
	case kind < 94:
		f.Blanket(i)
	case kind < 96:
		f.Leave(i)
		f.Look()
	case kind < 97 && f.Gateways() < 4:
		f.Add()
	case kind < 98 && f.Gateways() < 4:
		f.Succeed(i)
	default:
		f.Pass(40_000)
	}
}

// useUp takes what the limits admit at a time, in ten calls.
func (f *Shares) useUp() { f.takes(-1, 10, int64(max(f.mostAsked()/10, 1))) }

// mostAsked returns more hits than the limits admit at a time.
func (f *Shares) mostAsked() int {
	most := int64(1000)
	for i := range f.rules {
		most = min(most, max(f.rules[i].Burst, f.rules[i].Count/10))
	}
	return int(most)
}
