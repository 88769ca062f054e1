package door

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/mapping"
)

// Fault describes why a call has no decision, and the response to its client.
type Fault struct {
	// Status is the HTTP status for the client: 400 or 403 if its request is at
	// fault, 503 if the call ended before it was decided.
	Status int
	// Detail is the text for the client; "" with 503.
	Detail string
	// Err is the error behind the fault.
	Err error
	// RequestID is the identifier of the request for its client; "" for none.
	RequestID string
}

// FaultOf explains an error of Gate.Decide, which must not be nil.
func FaultOf(err error) Fault {
	var refusal *mapping.Refusal
	switch {
	case errors.As(err, &refusal):
		return Fault{Status: refusal.Status, Detail: refusal.Reason, Err: err}
	case engine.IsInvalid(err):
		return Fault{Status: http.StatusBadRequest, Detail: err.Error(), Err: err}
	}
	return Fault{Status: http.StatusServiceUnavailable, Err: err}
}

// Invalid returns the fault of a request that a door cannot read as a call. FaultOf
// turns it into a 400. The text must not contain anything that a client sent.
func Invalid(format string, args ...any) error {
	return &mapping.Refusal{Status: http.StatusBadRequest, Reason: fmt.Sprintf(format, args...)}
}

// IsRequest reports whether the request is at fault, as opposed to the service or
// the time that the caller granted.
func (f Fault) IsRequest() bool { return f.Status < http.StatusInternalServerError }

// IsCanceled reports whether the caller canceled the call, and will not read an
// answer.
func (f Fault) IsCanceled() bool { return errors.Is(f.Err, context.Canceled) }

// Refusal returns the problem document for the client.
func (f Fault) Refusal() engine.Refusal { return engine.ProblemOf(f.Status, f.Detail, f.RequestID) }

// Unavailability returns why a decision is Unavailable, for the caller of a door. It is
// store unless the engine has no rules.
func Unavailability(d *engine.Decision, store string) string {
	if errors.Is(d.Cause, engine.ErrNoRules) {
		return "no rules are loaded"
	}
	return store
}

// RefusalStatus returns the status that a door sends for a refusal: 403 instead of a
// status that rule files may name but that servers and gateways cannot send.
func RefusalStatus(status int) int {
	if status < 200 || status > 599 {
		return http.StatusForbidden
	}
	return status
}

// HasBody reports whether HTTP allows a refusal with this status to have a body.
func HasBody(status int) bool {
	return status != http.StatusNoContent && status != http.StatusNotModified
}
