// Package rules has a method.
package rules

// Method is how something is counted.
type Method uint8

// The methods.
const (
	Count Method = iota
	Hold
)

// Rule has a method.
type Rule struct{ Method Method }

// Price is what a rule costs.
type Price int

// Unused is not executed.
type Unused struct{}

// Price is not executed.
func (Unused) Price() Price { return 0 }

// Price asks in one place.
func (r *Rule) Price() Price {
	if r.Method == Hold {
		return 2
	}
	return 1
}
