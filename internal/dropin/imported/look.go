package imported

import (
	"time"

	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/rules"
)

// Look is the limit of one descriptor, and the state of its counter.
type Look struct {
	// Path is the name of the limit's statistics, "" if no limit applies.
	Path string
	// Limit is nil if none applies.
	Limit *envoylimits.Limit
	// Reason is why no limit applies, "" if one does.
	Reason string
	// Max, Used and Remaining are hits of the current window, and Reset is the time until it
	// ends. Max is what the limit allows, or an exception in its place. They are 0 for an
	// unlimited limit.
	Max, Used, Remaining int64
	Reset                time.Duration
	// Exceeded reports whether another hit would exceed the limit, and Refused whether a
	// call with that hit alone would be refused.
	Exceeded, Refused bool
	// Match selects the counter, the zero value without one.
	Match rules.Match
	// Exception is the ID of the exception that applies, "" for none.
	Exception string
	// Degraded reports that Redis is unavailable: only this process counted the hits.
	Degraded bool
}
