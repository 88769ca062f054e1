package store

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"time"

	"github.com/koalagate/koalagate/internal/method"
)

// Settler settles and renews receipts. A receipt that is unknown, malformed, spent or
// expired changes nothing and is no error.
type Settler interface {
	// Settle carries out a settlement as one atomic step, in a Cluster one per slot,
	// and spends the receipt. After an error it may have been carried out; it can be
	// repeated, because a receipt is spent once.
	Settle(ctx context.Context, s *Settlement) (Settled, error)
	// Renew makes the living holds of a receipt last for the Time of their rules from
	// now, and the receipt until the later of its former end and theirs. It shortens
	// nothing and revives nothing, and can be repeated.
	Renew(ctx context.Context, r *Renewal) (Settled, error)
}

// Settlement is how a request ended.
type Settlement struct {
	Receipt string
	Now     int64 // ms since the epoch; 0: the store's own clock
	// Zone is the zone of the calendar windows that the settlement opens; never nil. Other
	// thresholds are the take's.
	Zone *time.Location
	// Judge must be quick and must not call the store, which may hold locks, and may
	// ask several times for one rule.
	Judge Judge
}

// Renewal makes a receipt last.
type Renewal struct {
	Receipt string
	Now     int64 // ms since the epoch; 0: the store's own clock
}

// Settled is the result of a settlement or a renewal.
type Settled struct {
	// Known reports that the receipt was valid, and the operation carried out.
	Known bool
	// Age is the time since the take, in ms; 0 if the receipt was unknown.
	Age int64
	// Deferred reports that the store that keeps the receipt is unreachable, and that
	// the settlement will be carried out when it is reachable again.
	Deferred bool
}

// Judge reports what became of a rule's part of a request, by the rules in force.
type Judge interface {
	// Judge returns the use of the rule with this number and method.
	Judge(number int64, m Method) Use
}

// Keeper is a Judge that refers to its caller's memory. A store that judges after it has
// returned uses the copy.
type Keeper interface {
	Judge
	// Keep returns a judge with a copy of what it refers to.
	Keep() Judge
}

// JudgeFuncs is a Keeper made of functions.
type JudgeFuncs struct {
	Use  func(number int64, m Method) Use
	Kept func() func(number int64, m Method) Use // the same without the caller's memory
}

// Judge calls Use.
func (j JudgeFuncs) Judge(number int64, m Method) Use { return j.Use(number, m) }

// Keep returns a judge that calls the result of Kept.
func (j JudgeFuncs) Keep() Judge { return JudgeFuncs{Use: j.Kept(), Kept: j.Kept} }

// Use is what became of a rule's part of a request. The zero value passes over the part
// because its rule is gone or has another method: its estimate stands, its hold lasts
// until it runs out, and no outcome is charged.
type Use struct {
	Concerns bool  // the rule exists with this method
	Given    bool  // Hits replace the estimate; without them it stands
	Hits     int64 // that were used, 0 … MaxWeight
	Charge   bool  // the weight of an Outcome rule is recorded
}

// Part is what a rule takes part in a receipt with.
type Part uint8

// The parts.
const (
	NoPart   Part = iota
	Estimate      // a weight that a settlement replaces by what was used
	Held          // a weight that a settlement frees
	Charge        // a weight that a settlement records if the outcome calls for it
)

// Part returns the part that the rule has in the receipt of a take that admits its
// weight. A rule with Overdraft whose verdict allows although it refuses has one, too,
// if it records a weight of at least 1, and so has a marked rule that refuses. A shadow rule
// that refuses, and rules below the decider, have none. Several sets of a take that have parts with one counter have one
// part, of the sum of their weights.
func (r *Rule) Part() Part {
	switch {
	case r.Outcome && r.Weight > 0:
		return Charge
	case method.Of(r.Method).Holds && r.Weight > 0:
		return Held
	case r.Settle > 0 && !r.Outcome:
		return Estimate
	}
	return NoPart
}

// ReceiptSpan returns how long the rule keeps a receipt valid, in ms.
func (r *Rule) ReceiptSpan() int64 {
	if method.Of(r.Method).Holds {
		return r.Time * 1000
	}
	return r.Settle * 1000
}

// MaxReceipt is the largest length of a receipt, in bytes.
const MaxReceipt = 120

// The first byte of a receipt names the store that keeps it.
const (
	KeptInProcess = 'p'
	KeptInRedis   = 'r'
)

// NewReceipt returns a receipt of a store: its byte and 128 random bits. Stores may
// append what they need to find the receipt again.
func NewReceipt(keeper byte) string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	var text [23]byte
	text[0] = keeper
	base64.RawURLEncoding.Encode(text[1:], random[:])
	return string(text[:])
}

// KeptBy reports whether the text has the form of a receipt that keeper, KeptInProcess or
// KeptInRedis, has issued.
func KeptBy(keeper byte, text string) bool { return ValidReceipt(text) && text[0] == keeper }

// ValidReceipt reports whether a text has the form of a receipt. Texts that callers send
// are checked before a store is asked.
func ValidReceipt(text string) bool {
	if len(text) < 23 || len(text) > MaxReceipt || text[0] != KeptInProcess && text[0] != KeptInRedis {
		return false
	}
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}
