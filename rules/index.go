package rules

import (
	"cmp"
	"slices"
)

// index is what Match needs, made once when a set is loaded. Every parameter
// that a rule names has a slot, which a request fills once, whatever the
// number of rules. A rule that wants one of some words of a parameter is
// looked for under these words, so that a request meets few of the others.
type index struct {
	slots   map[string]int // by the parameter's name
	reads   []reading      // by slot
	rules   []indexed      // in the order of Set.Rules
	numbers map[int64]*Rule

	words  map[slotWord][]int32 // the rules that want this word, by their places in rules
	keyed  []int                // the slots of words
	always []int32              // the rules that are under no word
}

// slotWord is a word as the value of a slot.
type slotWord struct {
	slot int
	word string
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
	x.arrange()
	return x
}

// arrange puts every rule under the words of one of its conditions: the one
// whose words the fewest rules want.
func (x *index) arrange() {
	wanted := make(map[slotWord]int)
	for i := range x.rules {
		for _, t := range x.rules[i].tests {
			for _, word := range t.condition.words() {
				wanted[slotWord{t.slot, word}]++
			}
		}
	}
	x.words = make(map[slotWord][]int32)
	for i := range x.rules {
		best, least := test{}, 0
		for _, t := range x.rules[i].tests {
			most := 0
			for _, word := range t.condition.words() {
				most = max(most, wanted[slotWord{t.slot, word}])
			}
			if most > 0 && (least == 0 || most < least) {
				best, least = t, most
			}
		}
		if least == 0 {
			x.always = append(x.always, int32(i))
			continue
		}
		for _, word := range best.condition.words() {
			key := slotWord{best.slot, word}
			x.words[key] = append(x.words[key], int32(i))
		}
		if !slices.Contains(x.keyed, best.slot) {
			x.keyed = append(x.keyed, best.slot)
		}
	}
}

// words are all the values that the condition holds for, nil if it holds for
// others, too.
func (c *Condition) words() []string {
	if c.form != formList || c.Negated || c.ranged || len(c.addresses) > 0 {
		return nil
	}
	return c.texts
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
