package rules

import (
	"cmp"
	"slices"
)

// index is the search structure of Match, built once when a set is loaded. Every
// parameter that a rule uses has a slot, which a request fills once, whatever the
// number of rules. A rule is filed under one of its conditions: the one that the fewest
// other rules share, so that Match tests few rules that do not match.
type index struct {
	slots   map[string]int  // by the parameter's name
	reads   []reading       // by slot
	rules   []indexed       // in the order of Set.Rules
	numbers map[int64]int32 // indexes into rules, by `return`

	ways   []ways             // by slot
	words  map[slotWord]int32 // the numbers of all words that rules require
	wanted lists              // the rules filed under a word, by its number
	always []int32            // the rules that match without any particular parameter
}

// lists are many lists of rules, as indexes into index.rules. It has two pointers in
// total, so the garbage collector does not scan the lists one by one.
type lists struct {
	starts []uint32 // the start of each list in rules, and the end of the last
	rules  []int32
}

// entry is a rule in one of the lists.
type entry struct{ list, rule int32 }

// newLists returns lists with these entries, which must be in the order of their
// rules.
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

// reading is the set of ways in which conditions compare a slot's value.
type reading struct{ integers, addresses bool }

// ways lead from the value of a slot to the rules that are filed under it. Every list
// is in the order of the rules.
type ways struct {
	words     bool      // some rules are filed in index.words
	integers  rangeTree // the rules that require an integer in a range
	addresses rangeTree // the rules that require an address in a range
	lists     []listWay // the rules that require an entry of a word list
	present   []int32   // the rules that require any value
}

// listWay has the rules that require an entry of one word list.
type listWay struct {
	dict  *Dict
	rules []int32
}

// slotWord is a word as the value of a slot.
type slotWord struct {
	slot int
	word string
}

// indexed is a rule with its slots.
type indexed struct {
	rule     *Rule
	tests    []test
	identity []test // the tests that are part of the identity, ordered by name
	cost     int    // the slot of the cost parameter; -1 without one
	varying  []varying
}

// test is a condition and the slot of its parameter.
type test struct {
	condition *Condition
	slot      int
}

func newIndex(list []*Rule, numbers map[int64]int32, params []*ParamDecl, p *pauses) index {
	x := index{slots: make(map[string]int), rules: make([]indexed, len(list)), numbers: numbers}
	tests := 0
	for i, r := range list {
		if tests += len(r.Conditions); !p.at(i) {
			return x
		}
	}
	arena := make([]test, 0, 2*tests) // one allocation for all rules
	for i, r := range list {
		if x.rules[i], arena = x.add(r, arena); !p.at(i) {
			return x
		}
	}
	for _, d := range params {
		for i := range d.Sources {
			if by := d.Sources[i].By; by != "" {
				x.slot(by)
			}
		}
	}
	x.arrange(p)
	return x
}

// add returns a rule with its slots. It appends the rule's tests to arena.
func (x *index) add(r *Rule, arena []test) (indexed, []test) {
	in := indexed{rule: r, cost: -1}
	start := len(arena)
	for _, c := range r.Conditions {
		if c.OfResponse() {
			continue // what a request says of its response is ignored
		}
		slot := x.slot(c.Name)
		x.reads[slot].integers = x.reads[slot].integers || c.comparesIntegers()
		x.reads[slot].addresses = x.reads[slot].addresses || c.comparesAddresses()
		arena = append(arena, test{c, slot})
	}
	in.tests = slices.Clip(arena[start:])
	for _, t := range in.tests { // of direct rules, too: see Matches.Identify
		if t.condition.identifies() {
			arena = append(arena, t)
		}
	}
	in.identity = slices.Clip(arena[start+len(in.tests):])
	slices.SortFunc(in.identity, func(a, b test) int { return cmp.Compare(a.condition.Name, b.condition.Name) })
	if r.Cost != "" {
		in.cost = x.slot(r.Cost)
		x.reads[in.cost].integers = true
	}
	for i := range r.Thresholds {
		t := &r.Thresholds[i]
		slot := x.slot(t.Param)
		x.reads[slot].integers = x.reads[slot].integers || t.Table == ""
		in.varying = append(in.varying, varying{t, slot})
	}
	return in, arena
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

// arrange files every rule under one of its conditions.
func (x *index) arrange(p *pauses) {
	crowd := newCrowd(x, p)
	x.words, x.ways = crowd.words, make([]ways, len(x.reads))
	var wanted []entry
	integers, addresses := make([][]ruleRange, len(x.reads)), make([][]ruleRange, len(x.reads))
	for i := range x.rules {
		if !p.at(i) {
			return
		}
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
			for _, d := range t.condition.dicts {
				w.addList(d, rule)
			}
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
		x.ways[slot].integers, x.ways[slot].addresses = newRangeTree(integers[slot], p), newRangeTree(addresses[slot], p)
	}
}

// addList files a rule under a word list.
func (w *ways) addList(d *Dict, rule int32) {
	for i := range w.lists {
		if w.lists[i].dict == d {
			w.lists[i].rules = append(w.lists[i].rules, rule)
			return
		}
	}
	w.lists = append(w.lists, listWay{d, []int32{rule}})
}
