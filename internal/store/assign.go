package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/koalagate/koalagate/internal/method"
)

// Assigner is a store that assigns shares of limits: a holder, which is a gateway that
// decides by itself, may admit hits at a rate, and report later how many it has admitted.
type Assigner interface {
	// Assign records what a holder has used of its share of the counters of one bucket,
	// and assigns the next, in one atomic step. What is assigned is reserved: neither other
	// holders nor takes of the same counters get it until the share ends, so that the
	// limits hold over all of them.
	//
	// An error means that nothing was assigned; the usage may have been recorded, and is
	// not reported again. What the holder had stays reserved until its end. A Cluster
	// with the counters in several slots takes one step in each, and then reduces the
	// shares to the least.
	Assign(ctx context.Context, u *Usage) (Assignment, error)
}

// The bounds of a Usage.
const (
	MaxHolder  = 4096 // bytes of a holder's name
	MaxHolders = 128  // shares of one counter; those that have ended make room for new ones
	MaxCounted = 16   // counters of one bucket
	MaxLasts   = 60_000
	maxUsed    = 1 << 32 // hits of a report
)

// OnTheWay is how long a message to a holder may be under way, in ms: a share is reserved
// for so much longer than it lasts.
const OnTheWay = 500

// ReportWithin is how long a holder may be without a report, in ms, until its share is no
// longer extended. Envoy reports every 5 s.
const ReportWithin = 7000

// Usage is one report of a holder about one bucket, or, without Reported, an occasion
// between reports to change its share. It is due at each report, and about once a second
// for buckets that are in use.
type Usage struct {
	Now   int64 // ms since the epoch; 0: the store's own clock
	Zone  *time.Location
	Rules []Rule // the counters, each once, 1 … MaxCounted, for which Unassignable is ""; weights are ignored
	// Holder names the holder and its bucket: 1 … MaxHolder bytes. Stream names, in as many
	// at most, the stream by which it reports: holders of one name whose streams differ are
	// several, and an occasion of a stream whose share another one has got changes nothing.
	Holder, Stream string
	// Returns reports that the holder had another stream before: it goes on with the share of
	// its name that was not reported for the longest time.
	Returns bool

	Reported bool
	// Allowed and Denied are the reported hits since the last report. Allowed hits that
	// no share covers are taken from the counters, also from empty ones, but leave no
	// bucket further below empty than its burst. A gateway that
	// came back under another name reports what its former share covered: pass such hits
	// as denied, which only shows that they are wanted.
	Allowed, Denied int64
	// Elapsed is the time since the last report of the bucket by the caller's clock, in
	// ms; 0 if it is the first.
	Elapsed int64

	Lasts int64 // how long an assignment lasts, in ms: whole seconds, 1000 … MaxLasts
	// Fresh reports that the holder fills its bucket afresh with the next assignment,
	// whatever the store knows: its last one has expired, or a blanket rule followed it.
	Fresh bool
	// Leave ends the share: the holder forgets its bucket, or the caller abandons it. Hits that
	// it may have admitted and has not reported count as spent, but for the time by which the
	// store's clock has stepped back.
	Leave bool

	// Look changes nothing, and gets what all holders have of the only counter: Lent,
	// Limit and Holders of the assignment, 0 without holders. Holder does not matter; Limit of a
	// window is for assignments that last as long as Lasts.
	Look bool
}

// Assignment is the answer to a Usage.
type Assignment struct {
	// Send reports that the holder must get the assignment: the store counts on it from
	// now on. Without it the holder keeps what it has until that ends: either nothing needs
	// to change, or Reason says why nothing is assigned.
	Send bool
	// Rate, Burst and Lasts are what the holder gets or, without Send, what it keeps; 0 if
	// it has nothing.
	Rate  int64 // hits per 10 s, at least 1; see Fill
	Burst int64 // the hits of a full bucket, at least 1; the same for all assignments of a share unless there are more holders
	Lasts int64 // ms from its receipt: whole seconds, at least 1000

	Reason Reason
	// Rule is the index of the rule that left the least, or that Reason is about.
	Rule int
	// Banned is how long its ban lasts, in ms; 0 without one.
	Banned int64

	Forfeited int64 // hits that were reserved for the holder, and that it did not report in time
	Debt      int64 // reported hits that no share covered
	// Lent is the rate of all holders of the counter of Rule together, per 10 s, with
	// this assignment, Limit what it can refill in that time, and Holders their number.
	Lent, Limit, Holders int64
	Now                  int64 // the store's clock at the step, ms since the epoch
	// Degraded reports that the in-process store answered in place of Redis.
	Degraded bool
}

// Fill returns the rate as tokens that are filled in an interval of so many seconds: the
// least whole numbers.
func (a *Assignment) Fill() (tokens, seconds int64) {
	for _, n := range [...]int64{10, 5, 2} {
		if a.Rate%n == 0 {
			return a.Rate / n, 10 / n
		}
	}
	return a.Rate, 10
}

// Reason is why nothing is assigned.
type Reason uint8

// The reasons. Those about a share may pass: the next occasion may bring an assignment.
const (
	Assigned      Reason = iota
	NoRate               // all of the limit is reserved; the holder gets its fair share as others report
	NoBurst              // no burst is free: what the limit has left, or what lease=P% allows
	TooMany              // the counter has MaxHolders holders
	Silent               // the holder has not reported for ReportWithin, or another stream of its name has its share
	WindowEnds           // what is left of the window is too short for an assignment
	BannedNow            // the subject is banned
	HasLeft              // the usage ended the share
	OutOfMemory          // the in-process store is full, and has no counter for the subject
	StrictRefuses        // without Redis the rule refuses everything
	LenientPasses        // without Redis none of the rules decides
)

var reasons = [...]string{
	Assigned: "assigned", NoRate: "all of the limit is reserved", NoBurst: "no burst is free",
	TooMany: "too many gateways share the limit", Silent: "no report came in time",
	WindowEnds: "the window ends", BannedNow: "banned", HasLeft: "the bucket was left",
	OutOfMemory: "the in-process store is full", StrictRefuses: "the rule refuses without Redis",
	LenientPasses: "no rule decides without Redis",
}

// String returns the reason in words, for logs.
func (r Reason) String() string {
	if int(r) < len(reasons) {
		return reasons[r]
	}
	return "unknown"
}

// Unassignable returns the word of the rule language because of which no share of the
// rule's limit can be assigned, or which it lacks; "" if shares can be.
func (r *Rule) Unassignable() string {
	is := method.Of(r.Method)
	switch {
	case !is.Leases:
		return is.Name
	case r.Lease == 0:
		return "lease"
	case r.Overdraft:
		return "overdraft"
	case r.Settle > 0:
		return "settle"
	case r.Wait > 0:
		return "wait"
	case is.Windows && r.Unit < Minute && r.Time < method.ShortestShared:
		return "time"
	}
	word, _ := r.TooSmall()
	return word
}

// TooSmall returns the word for what is too small about the limit of a rule with lease, so that
// no share of it can be assigned, and the least value; "" if nothing is.
func (r *Rule) TooSmall() (word string, least int64) {
	return method.Of(r.Method).TooSmall(r.Time, r.Count, r.Burst, r.Lease)
}

// RefusesAll reports whether the limit of the rule admits nothing.
func (r *Rule) RefusesAll() bool {
	return r.Count == 0 && r.Base == 0 || method.Of(r.Method).Refills && r.Burst == 0
}

// Validate returns an error that describes the first invalid part of the usage.
func (u *Usage) Validate() error {
	switch {
	case u.Now < 0 || u.Now > MaxNow:
		return fmt.Errorf("usage: now is %d; want 0 … %d ms", u.Now, int64(MaxNow))
	case u.Zone == nil:
		return errors.New("usage: no zone")
	case u.Look && len(u.Rules) != 1:
		return fmt.Errorf("usage: a look at %d counters; want one", len(u.Rules))
	case u.Look:
		return u.validateRules()
	case len(u.Holder) == 0 || len(u.Holder) > MaxHolder:
		return fmt.Errorf("usage: the holder's name has %d bytes; want 1 … %d", len(u.Holder), MaxHolder)
	case len(u.Stream) > MaxHolder:
		return fmt.Errorf("usage: the stream's name has %d bytes; want %d at most", len(u.Stream), MaxHolder)
	case !within(u.Allowed, 0, maxUsed) || !within(u.Denied, 0, maxUsed) || u.Elapsed < 0:
		return fmt.Errorf("usage: %d hits allowed and %d denied in %d ms; want 0 … %d, and a time of 0 or more", u.Allowed, u.Denied, u.Elapsed, int64(maxUsed))
	case !within(u.Lasts, 1000, MaxLasts) || u.Lasts%1000 > 0:
		return fmt.Errorf("usage: an assignment lasts %d ms; want whole seconds, 1000 … %d ms", u.Lasts, MaxLasts)
	case len(u.Rules) == 0 || len(u.Rules) > MaxCounted:
		return fmt.Errorf("usage: %d counters; want 1 … %d", len(u.Rules), MaxCounted)
	}
	return u.validateRules()
}

// validateRules returns an error that describes the first rule of which no share can be
// assigned.
func (u *Usage) validateRules() error {
	for i := range u.Rules {
		r := &u.Rules[i]
		if fault := r.fault(); fault != "" {
			return fmt.Errorf("usage: rule %d (return %d): %s", i, r.Return, fault)
		}
		if word := r.Unassignable(); word != "" {
			return fmt.Errorf("usage: rule %d (return %d): no share can be assigned because of %s", i, r.Return, word)
		}
		for j := range i {
			if u.Rules[j].Tag() == r.Tag() && bytes.Equal(u.Rules[j].Subject, r.Subject) {
				return fmt.Errorf("usage: rules %d and %d have one counter; want each once", j, i)
			}
		}
	}
	return nil
}

// HolderID identifies a holder in stores: 48 bits of a hash of its name, and of its stream.
type HolderID struct{ Name, Stream [6]byte }

// ID returns the id of the holder.
func (u *Usage) ID() HolderID {
	name, stream := sha256.Sum256([]byte(u.Holder)), sha256.Sum256([]byte(u.Stream))
	return HolderID{[6]byte(name[:6]), [6]byte(stream[:6])}
}
