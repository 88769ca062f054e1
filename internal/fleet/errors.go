package fleet

import (
	"errors"
	"fmt"

	"github.com/koalagate/koalagate/internal/reload"
)

// ConflictError reports that another version is in force than the publisher expected,
// or that another publish runs.
type ConflictError struct {
	InForce uint64 // the version in force
	Running uint64 // the proposed version of the other publish; 0 if none runs
}

// Error implements error.
func (e *ConflictError) Error() string {
	if e.Running > 0 {
		return fmt.Sprintf("version %d is being published; wait for its end, and compare with it", e.Running)
	}
	if e.InForce == 0 {
		return "no version is in force in Redis; it was flushed or replaced: koalagate publish --restore publishes the rules of an instance again"
	}
	return fmt.Sprintf("version %d came into force meanwhile; compare with it, and publish again", e.InForce)
}

// RefusedError reports that a version cannot be proposed or applied.
type RefusedError struct {
	Reason    string
	untrusted bool // its record is not one that the holder of the key has signed
}

// Error implements error.
func (e *RefusedError) Error() string { return e.Reason }

// missingError reports that Redis lacks a content of a proposed version.
type missingError struct{ error }

// Unwrap returns the RefusedError.
func (e *missingError) Unwrap() error { return e.error }

// awayError reports that Redis does not answer.
type awayError struct{ error }

// Unwrap returns the error of the call.
func (e *awayError) Unwrap() error { return e.error }

// faultOf returns what an error of a call is about.
func faultOf(err error) reload.Fault {
	var away *awayError
	if errors.As(err, &away) {
		return reload.FaultAway
	}
	return reload.FaultRules
}

func refused(format string, args ...any) error {
	return &RefusedError{Reason: fmt.Sprintf(format, args...)}
}
