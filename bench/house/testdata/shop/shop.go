// Package shop is a tree to count.
package shop

import "example.com/shop/rules"

/* A comment
of two lines. */

// Text has two lines of code in a raw string, and a blank one.
const Text = `one

two`

// Price asks for a rule.
func Price(r *rules.Rule, n int) rules.Price { // crosses
	if n > 0 {
		var unused rules.Unused
		return unused.Price()
	}
	return r.Price()
}
