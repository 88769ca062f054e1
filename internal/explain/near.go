package explain

import (
	"cmp"
	"slices"
)

const (
	// MaxNotMet is the number of rules that are not met up to which text shows
	// all rules. If more are not met, it shows the nearest of them only.
	MaxNotMet = 20
	// maxNearest is the number of rules that it shows then.
	maxNearest = 10
)

// selectRules returns the rules that text shows, in their order, and the number
// of omitted rules. It omits rules that are not met, except the nearest ones.
func selectRules(all []Rule) (shown []Rule, omitted int) {
	met, near := 0, []int{}
	for i := range all {
		if all[i].Outcome != NotMet {
			met++
		} else if all[i].isNear() {
			near = append(near, i)
		}
	}
	if len(all)-met <= MaxNotMet {
		return all, 0
	}
	// Conditions that hold for few requests say more than those such as uid=+,
	// which hold for most.
	slices.SortStableFunc(near, func(a, b int) int { return cmp.Compare(all[b].selecting, all[a].selecting) })
	near = near[:min(len(near), maxNearest)]
	slices.Sort(near)
	for i := range all {
		if len(near) > 0 && near[0] == i {
			near = near[1:]
		} else if all[i].Outcome == NotMet {
			omitted++
			continue
		}
		shown = append(shown, all[i])
	}
	return shown, omitted
}

// isNear reports whether exactly one condition fails and another one holds, or all hold
// and the rule is not active.
func (r *Rule) isNear() bool {
	return len(r.Failed) == 1 && r.holding > 0 || len(r.Failed) == 0 && r.Inactive != ""
}
