package rules

import (
	"fmt"
	"slices"
	"strings"
)

// Renumbered warns of rules of a new generation whose numbers meant something
// else in the one before: counters and reports are kept by the number, and
// would be taken for those of another rule. A changed limit, another result or
// a value more is no change of meaning.
func Renumbered(before, now *Set) Findings {
	if before == nil {
		return nil
	}
	homes := make(map[string]int64, len(now.Rules)) // numbers by what they are about
	for _, r := range now.Rules {
		if about := subject(r); homes[about] == 0 {
			homes[about] = r.Return
		}
	}
	var found collector
	for _, r := range now.Rules {
		was := before.Rule(r.Return)
		if was == nil {
			continue
		}
		if message, hint := changedMeaning(was, r, homes); message != "" {
			found.add(warnRenumbered, span{}, Finding{Position: r.Pos, Message: message, Hint: hint})
		}
	}
	return found.sorted(now.Sources)
}

// changedMeaning says what has become of a number; "" if it means the same.
func changedMeaning(was, is *Rule, homes map[string]int64) (message, hint string) {
	const another = "give the rule another number, unless this is meant"
	former := subject(was)
	if moved := homes[former]; moved != 0 && former != subject(is) {
		return fmt.Sprintf("return=%d was the number of the rule that is %d now", is.Return, moved), "let a rule keep its number: counters and reports are kept by it"
	}
	if was.Method != is.Method {
		return fmt.Sprintf("return=%d was a %s rule and is a %s rule", is.Return, was.Method, is.Method), another
	}
	if a, b := countedBy(was), countedBy(is); is.Counts() && !slices.Equal(a, b) {
		return fmt.Sprintf("return=%d counted by %s and counts by %s", is.Return, listNames(a), listNames(b)), another
	}
	return "", ""
}

// subject is what a rule is about: its conditions, whatever their order.
func subject(r *Rule) string {
	conditions := make([]string, len(r.Conditions))
	for i, c := range r.Conditions {
		conditions[i] = c.String()
	}
	slices.Sort(conditions)
	return strings.Join(conditions, ";")
}

// countedBy are the parameters that a rule's counters belong to, sorted.
func countedBy(r *Rule) []string {
	var names []string
	for _, c := range r.Conditions {
		if c.identifies() {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	return names
}

func listNames(names []string) string {
	if len(names) == 0 {
		return "no parameter"
	}
	return strings.Join(names, ", ")
}
