// Package imported has the options of the door of limits that were imported from
// envoyproxy/ratelimit: the limits, the statistics that receive the events, and how the
// door answers. Package ratelimit has the door itself, ratelimit.Limits. The options are
// separate from it because they name the limits, which no package outside internal does.
package imported

import (
	"errors"
	"log/slog"
	"time"

	"github.com/koalagate/koalagate/internal/envoylimits"
)

// Windows is how the windows of imported limits begin and end.
type Windows string

// The windows of imported limits. The zero value is Fixed.
const (
	Fixed   Windows = "fixed"   // at whole multiples of the unit since 1970 UTC, as in envoyproxy/ratelimit
	Opening Windows = "opening" // from their first hit; a day is the calendar day in UTC
	Sliding Windows = "sliding" // the last unit of time, exactly
)

// Headers are the names of the fields that describe the strictest limit of a call to
// the client.
type Headers struct{ Limit, Remaining, Reset string }

// Statistics receives the events of the door. Its methods are called concurrently
// and must return at once.
type Statistics interface {
	// Called reports the end of a call and the time that it took.
	Called(took time.Duration)
	// UnknownDomain reports a descriptor of a domain without limits.
	UnknownDomain(domain string)
	// Counted reports the hits of a descriptor, and the count before and after them. most is how
	// many hits it may have: those of the limit, unless an exception or a share replaces them.
	Counted(path string, limit *envoylimits.Limit, most, hits, before, after uint64)
	// Subtracted reports hits that a descriptor gave back.
	Subtracted(path string, limit *envoylimits.Limit, hits uint64)
	// Overruled reports a refusal that Options.Shadow or the mode of the door let through.
	Overruled()
	// StoreFailed reports a call that ended with an error because no store answered.
	StoreFailed()
	// RequestFailed reports a call that ended with an error for another reason: its request is
	// faulty, or no limits are loaded.
	RequestFailed()
}

// Options configure the door. Current and Statistics are required.
type Options struct {
	// Current returns the current limits, nil if none are loaded yet.
	Current    func() *envoylimits.Set
	Statistics Statistics
	// Rules makes the rules of the door decide, too, in the same step.
	Rules bool
	// Windows are the windows of all limits.
	Windows Windows
	// FreeRefusals makes a refused call count nowhere. Hits that a descriptor carries
	// itself are counted nevertheless: gateways send costs in them after the response.
	FreeRefusals bool
	// StopWhenOver makes a refused call count only where it exceeds a limit.
	StopWhenOver bool
	// Shadow lets every call pass. The statuses of descriptors remain.
	Shadow bool
	// Quota treats every descriptor as a quota: a call is refused if all are exceeded.
	Quota bool
	// GroupQuotas makes quotas whose first two entries are equal a group, as the quotas of one
	// model of one backend: a group is exceeded if any of its quotas is, and a call is
	// refused if all groups are.
	GroupQuotas bool
	// Settle makes entries whose keys begin with koala. operations, as at the door of
	// rules: charges, refunds, settlements of receipts and renewals. The door of the rules
	// must then have no ratelimit.Options.PlainEntries.
	Settle bool
	// Metadata adds the request and the metadata of limits to answers.
	Metadata bool
	// Headers are the fields for clients; nil for none.
	Headers *Headers
	// Logger receives calls that cannot be decided, at debug level; nil for slog.Default.
	Logger *slog.Logger
}

// Check returns an error if a required option is missing.
func (o *Options) Check() error {
	switch {
	case o.Current == nil:
		return errors.New("imported limits: no Current; want the function that returns the limits")
	case o.Statistics == nil:
		return errors.New("imported limits: no Statistics; want the receiver of the events")
	}
	return nil
}
