package reload

import "github.com/koalagate/koalagate/rules"

// FindingsError reports rules that have errors.
type FindingsError struct {
	Findings rules.Findings // at least one is an error
}

// Error returns the first error and the number of the other errors.
func (e *FindingsError) Error() string {
	var errors rules.Findings
	for _, f := range e.Findings {
		if f.Severity == rules.Error {
			errors = append(errors, f)
		}
	}
	return summary(describe(errors, nil))
}
