package rules

// TEMPORARY, like stub.go: replaced when conditions have names.

// Uses tells whether a rule names a parameter, in a condition or as its cost.
func (s *Set) Uses(name string) bool { return false }
