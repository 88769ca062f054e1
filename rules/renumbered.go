package rules

import (
	"fmt"
	"slices"
	"strings"
)

// Renumbered returns warnings about rules whose numbers belonged to different rules in
// the previous generation: counters and reports are kept by number, and would be
// attributed to the wrong rule. A changed limit, result or value is not a change of
// meaning. A nil before means that there is no previous generation. For koalagate's own
// programs, may change.
func Renumbered(before, now *Set) Findings {
	if before == nil {
		return nil
	}
	homes := make(map[string]int64, len(now.Rules)) // numbers by subject
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

// changedMeaning returns the message and the hint for a number that changed its
// meaning, "" if it did not.
func changedMeaning(was, is *Rule, homes map[string]int64) (message, hint string) {
	const another = "give the rule another number, unless this is intended"
	former := subject(was)
	if moved := homes[former]; moved != 0 && former != subject(is) {
		return fmt.Sprintf("return=%d was the number of the rule that is now %d", is.Return, moved), "keep the number of a rule, because counters and reports are kept by number"
	}
	if was.Method != is.Method {
		return fmt.Sprintf("return=%d was a %s rule and is now a %s rule", is.Return, was.Method, is.Method), another
	}
	if a, b := countedBy(was), countedBy(is); is.Counts() && !slices.Equal(a, b) {
		return fmt.Sprintf("return=%d counted by %s and now counts by %s", is.Return, listNames(a), listNames(b)), another
	}
	return "", ""
}

// subject returns the conditions of a rule in a canonical order.
func subject(r *Rule) string {
	conditions := make([]string, len(r.Conditions))
	for i, c := range r.Conditions {
		conditions[i] = c.String()
	}
	slices.Sort(conditions)
	return strings.Join(conditions, ";")
}

// countedBy returns the names of the parameters in a rule's identity, sorted.
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
