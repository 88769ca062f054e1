package rules

import (
	"cmp"
	"slices"
)

// index is what Match needs, made once when a set is loaded: every parameter
// that a rule names has a slot, which a request fills once, whatever the
// number of rules.
type index struct {
	slots   map[string]int // by the parameter's name
	reads   []reading      // by slot
	rules   []indexed      // in the order of Set.Rules
	numbers map[int64]*Rule
}

// reading says in what ways conditions compare a slot's value.
type reading struct{ integers, addresses bool }

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
	}
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
