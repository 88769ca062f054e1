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
	slots   map[string]int // by the parameter's name
	reads   []reading      // by slot
	rules   []indexed      // in the order of Set.Rules
	numbers map[int64]*Rule

	ways   []ways               // by slot
	words  map[slotWord][]int32 // the rules that want this word, by their places in rules
	always []int32              // the rules that ask for nothing that a request must have
}

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

func newIndex(list []*Rule) index {
	x := index{slots: make(map[string]int), rules: make([]indexed, len(list)), numbers: make(map[int64]*Rule, len(list))}
	for i, r := range list {
		x.rules[i] = x.add(r)
		x.numbers[r.Return] = r
		breathe(i)
	}
	x.arrange()
	return x
}

func (x *index) add(r *Rule) indexed {
	in := indexed{rule: r, tests: make([]test, len(r.Conditions)), cost: -1}
	for i, c := range r.Conditions {
		slot := x.slot(c.Name)
		x.reads[slot].integers = x.reads[slot].integers || c.comparesIntegers()
		x.reads[slot].addresses = x.reads[slot].addresses || c.comparesAddresses()
		in.tests[i] = test{c, slot}
		if c.identifies() && r.Counts() {
			in.identity = append(in.identity, in.tests[i])
		}
	}
	slices.SortFunc(in.identity, func(a, b test) int { return cmp.Compare(a.condition.Name, b.condition.Name) })
	if r.Cost != "" {
		in.cost = x.slot(r.Cost)
		x.reads[in.cost].integers = true
	}
	return in
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
	x.words, x.ways = make(map[slotWord][]int32), make([]ways, len(x.reads))
	crowd := newCrowd(x)
	integers, addresses := make([][]ruleRange, len(x.reads)), make([][]ruleRange, len(x.reads))
	for i := range x.rules {
		breathe(i)
		rule, t := int32(i), crowd.rarest(x.rules[i].tests)
		if t.condition == nil {
			x.always = append(x.always, rule)
			continue
		}
		w := &x.ways[t.slot]
		switch want := t.condition.want(); want.kind {
		case wantValue:
			w.present = append(w.present, rule)
		case wantListed:
			w.list(t.condition.dict, rule)
		case wantOne:
			for _, word := range want.words {
				key := slotWord{t.slot, word}
				x.words[key], w.words = append(x.words[key], rule), true
			}
			for _, r := range want.integers {
				integers[t.slot] = append(integers[t.slot], ruleRange{r, rule})
			}
			for _, r := range want.addresses {
				addresses[t.slot] = append(addresses[t.slot], ruleRange{r, rule})
			}
		}
	}
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
