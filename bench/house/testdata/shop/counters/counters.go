// Package counters asks a method in two places.
package counters

import "example.com/shop/rules"

// Way is another name of a method.
type Way = rules.Method

// Size asks twice on one line, and once in a case.
func Size(w Way, n int) int {
	if w == rules.Count || w != rules.Hold {
		return n
	}
	switch w {
	case rules.Hold, rules.Count:
		return 1
	}
	if n == 7 && w == Way(n) {
		return 2
	}
	return 0
}
