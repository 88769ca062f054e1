package door

import (
	"context"
	"time"

	"github.com/koalagate/koalagate/engine"
)

// Watch observes the calls of doors. Each function may be nil. They must return at
// once, and are called concurrently.
type Watch struct {
	// Answered is called when a call ends, with the name of its door and the time
	// from its arrival to its answer.
	Answered func(door string, took time.Duration)
	// Decided is called after each decision, with the context of the call, the
	// question, the time when the decision began, and what engine.Decide returned. It
	// must not retain the question and the decision.
	Decided func(ctx context.Context, q *Question, began time.Time, d *engine.Decision, err error)
}

// end reports the end of a call.
func (w *Watch) end(q *Question) {
	if w.Answered != nil && q.Request.Door != "" {
		w.Answered(q.Request.Door, time.Since(q.began))
	}
}
