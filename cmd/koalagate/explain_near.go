package main

import (
	"cmp"
	"slices"
)

// The bounds of an explanation for people: up to maxNotMet rules that are not
// met are all told, of more the nearest.
const (
	maxNotMet  = 20
	maxNearest = 10
)

// worthTelling are the rules that people want to hear of, in their order, and
// the number of the others. Those are rules that are not met, and not nearly so.
func worthTelling(all []explainedRule) (told []explainedRule, others int) {
	met, near := 0, []int{}
	for i := range all {
		if all[i].Outcome != outcomeNotMet {
			met++
		} else if all[i].isNear() {
			near = append(near, i)
		}
	}
	if len(all)-met <= maxNotMet {
		return all, 0
	}
	// What selects says more than what holds for most requests, as uid=+ does.
	slices.SortStableFunc(near, func(a, b int) int { return cmp.Compare(all[b].selecting, all[a].selecting) })
	near = near[:min(len(near), maxNearest)]
	slices.Sort(near)
	for i := range all {
		if len(near) > 0 && near[0] == i {
			near = near[1:]
		} else if all[i].Outcome == outcomeNotMet {
			others++
			continue
		}
		told = append(told, all[i])
	}
	return told, others
}

// isNear tells whether all conditions but one hold of a rule that is not met,
// and there are such.
func (r *explainedRule) isNear() bool { return len(r.Failed) == 1 && r.holding > 0 }
