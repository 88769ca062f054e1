package rules

import (
	"cmp"
	"slices"
)

// index is what Match needs, made once when a set is loaded. Every parameter
// that a rule names has a slot, which a request fills once, whatever the
// number of rules. A rule stands under one of its conditions: the one that the
// fewest other rules share, so that a request meets few rules that it does not
// match.
type index struct {
	slots   map[string]int  // by the parameter's name
	reads   []reading       // by slot
	rules   []indexed       // in the order of Set.Rules
	numbers map[int64]int32 // the places in rules, by the numbers of `return`

	ways   []ways             // by slot
	words  map[slotWord]int32 // the numbers of all words that a rule wants
	wanted lists              // by the number of a word: the rules that stand under it
	always []int32            // the rules that ask for nothing that a request must have
}

// lists are many lists of rules, by their places in index.rules, without a
// pointer in them: the garbage collector need not look at each.
type lists struct {
	starts []uint32 // where each list begins in rules, and where the last one ends
	rules  []int32
}

// entry is a rule in one of the lists.
type entry struct{ list, rule int32 }

// newLists makes so many lists of entries that are in the order of their rules.
func newLists(number int, entries []entry) lists {
	l := lists{make([]uint32, number+1), make([]int32, len(entries))}
	for _, e := range entries {
		l.starts[e.list+1]++
	}
	for i := 1; i <= number; i++ {
		l.starts[i] += l.starts[i-1]
	}
	filled := slices.Clone(l.starts)
	for _, e := range entries {
		l.rules[filled[e.list]] = e.rule
		filled[e.list]++
	}
	return l
}

// of is one of the lists.
func (l *lists) of(number int32) []int32 { return l.rules[l.starts[number]:l.starts[number+1]] }

// reading says in what ways conditions compare a slot's value.
type reading struct{ integers, addresses bool }

// ways lead from the value of a slot to the rules that stand under it. Every
// list of rules is in their order.
type ways struct {
	words     bool      // some stand in index.words
	integers  rangeTree // those that want the value in a range
	addresses rangeTree // the same
	lists     []listWay // those that want it in a word list
	present   []int32   // those that want any value
}

// listWay has the rules that want the value in one word list.
type listWay struct {
	dict  *Dict
	rules []int32
}

// slotWord is a word as the value of a slot.
type slotWord struct {
	slot int
	word string
}

// indexed is a rule that is ready to match.
type indexed struct {
	rule     *Rule
	tests    []test
	identity []test // those that are a part of the identity, ordered by name
	cost     int    // the slot of the cost parameter; -1 without one
}

// test is a condition and the slot of its parameter.
type test struct {
	condition *Condition
	slot      int
}

func newIndex(list []*Rule, numbers map[int64]int32) index {
	x := index{slots: make(map[string]int), rules: make([]indexed, len(list)), numbers: numbers}
	tests := 0
	for _, r := range list {
		tests += len(r.Conditions)
	}
	room := make([]test, 0, 2*tests) // for all rules at once
	for i, r := range list {
		x.rules[i], room = x.add(r, room)
		yieldAt(i)
	}
	x.arrange()
	return x
}

// add makes a rule ready to match. Its tests are behind those in room.
func (x *index) add(r *Rule, room []test) (indexed, []test) {
	in := indexed{rule: r, cost: -1}
	start := len(room)
	for _, c := range r.Conditions {
		slot := x.slot(c.Name)
		x.reads[slot].integers = x.reads[slot].integers || c.comparesIntegers()
		x.reads[slot].addresses = x.reads[slot].addresses || c.comparesAddresses()
		room = append(room, test{c, slot})
	}
	in.tests = slices.Clip(room[start:])
	if r.Counts() {
		for _, t := range in.tests {
			if t.condition.identifies() {
				room = append(room, t)
			}
		}
		in.identity = slices.Clip(room[start+len(in.tests):])
		slices.SortFunc(in.identity, func(a, b test) int { return cmp.Compare(a.condition.Name, b.condition.Name) })
	}
	if r.Cost != "" {
		in.cost = x.slot(r.Cost)
		x.reads[in.cost].integers = true
	}
	return in, room
}

func (x *index) slot(name string) int {
	slot, ok := x.slots[name]
	if !ok {
		slot = len(x.reads)
		x.slots[name] = slot
		x.reads = append(x.reads, reading{})
	}
	return slot
}

// arrange puts every rule under one of its conditions.
func (x *index) arrange() {
	crowd := newCrowd(x)
	x.words, x.ways = crowd.words, make([]ways, len(x.reads))
	var wanted []entry
	integers, addresses := make([][]ruleRange, len(x.reads)), make([][]ruleRange, len(x.reads))
	for i := range x.rules {
		yieldAt(i)
		rule, t := int32(i), crowd.rarest(x.rules[i].tests)
		if t.condition == nil {
			x.always = append(x.always, rule)
			continue
		}
		w := &x.ways[t.slot]
		switch want := crowd.want(t); want.kind {
		case wantValue:
			w.present = append(w.present, rule)
		case wantListed:
			w.list(t.condition.dict, rule)
		case wantOne:
			for _, word := range want.words {
				wanted, w.words = append(wanted, entry{x.words[slotWord{t.slot, word}], rule}), true
			}
			for _, r := range want.integers {
				integers[t.slot] = append(integers[t.slot], ruleRange{r, rule})
			}
			for _, r := range want.addresses {
				addresses[t.slot] = append(addresses[t.slot], ruleRange{r, rule})
			}
		}
	}
	x.wanted = newLists(len(crowd.wanting), wanted)
	for slot := range x.ways {
		x.ways[slot].integers, x.ways[slot].addresses = newRangeTree(integers[slot]), newRangeTree(addresses[slot])
	}
}

// list puts a rule under a word list.
func (w *ways) list(d *Dict, rule int32) {
	for i := range w.lists {
		if w.lists[i].dict == d {
			w.lists[i].rules = append(w.lists[i].rules, rule)
			return
		}
	}
	w.lists = append(w.lists, listWay{d, []int32{rule}})
}
