// Package exceptions keeps the exceptions that operators make for single identities:
// another count, a pass or a refusal, until an instant. With Redis they hold for all
// instances, without it for this process. A Keeper checks and stores them, follows
// the changes of other instances, and resolves them by the current rules for the engine,
// so that they survive reloads.
package exceptions

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/httptext"
	"github.com/koalagate/koalagate/internal/method"
	"github.com/koalagate/koalagate/internal/printable"
	"github.com/koalagate/koalagate/rules"
)

// Exception is an exception as operators see it. docs/formats.md describes its JSON
// document.
type Exception struct {
	ID   string `json:"id"`
	Rule int64  `json:"rule"` // 0 for an imported limit, and for a ban
	// Limit is the path of an imported limit as /rlconfig prints it, "" for a rule. The
	// identity has the values of a descriptor by key then.
	Limit    string            `json:"limit,omitempty"`
	Identity map[string]string `json:"identity"` // by name; NAME@KIND for later sources
	What     string            `json:"what"`     // count, allow, deny or ban
	Count    int64             `json:"count"`    // of count; 0 otherwise
	Until    time.Time         `json:"until"`
	Author   string            `json:"author"`
	Note     string            `json:"note"`
	// Masked names the parameters whose values lists do not show, because the operator who added
	// the exception saw masks.
	Masked []string `json:"masked,omitempty"`
	// Handle names the identity at the instance that made the handle. It is of requests and answers
	// alone: nobody stores or signs it.
	Handle string `json:"handle,omitempty"`
	// Signature is the signature by the key of publish_public_key, in base64; "" for none.
	Signature string `json:"signature,omitempty"`
}

// The values of Exception.What.
const (
	Count = "count" // another count, and burst if the rule states none
	Allow = "allow" // the rule counts nothing and never decides
	Deny  = "deny"  // the rule decides
	Ban   = "ban"   // every request with all parameters of the identity is refused, before any rule
)

var kinds = map[string]engine.ExceptionKind{Count: engine.ExceptCount, Allow: engine.ExceptAllow, Deny: engine.ExceptDeny, Ban: engine.ExceptBan}

// WordOf returns the word of a kind: count, allow, deny or ban.
func WordOf(kind engine.ExceptionKind) string {
	for word, one := range kinds {
		if one == kind {
			return word
		}
	}
	return ""
}

const (
	// MaxSpan is the longest time for which an exception can last.
	MaxSpan = 31 * 24 * time.Hour
	// clockStep is how far the clock of Redis, as this process knows it, may step back between
	// the choice of an end and its check.
	clockStep = time.Second
	// idLength is the length of an ID.
	idLength = 12
	// maxNote is the maximum length of a note and of an author, in bytes.
	maxNote = 500
	// maxRecord is the maximum length of an exception in Redis, in bytes.
	maxRecord = 64 << 10
)

// InvalidError reports an exception that the rules do not allow. Nothing was changed.
type InvalidError struct{ error }

// Unwrap returns the error itself.
func (e InvalidError) Unwrap() error { return e.error }

func invalid(format string, args ...any) error { return InvalidError{fmt.Errorf(format, args...)} }

// ConflictError reports that the rule and identity have an exception already. Nothing was
// changed.
type ConflictError struct{ Other Exception }

// Error names the other exception, and what to do.
func (e *ConflictError) Error() string {
	if e.Other.What == Ban {
		return fmt.Sprintf("exception %s bans this identity until %s; remove it first", e.Other.ID, e.Other.Until.Format(time.RFC3339))
	}
	return fmt.Sprintf("%s has exception %s (%s) for this identity until %s; remove it first", e.Other.Target(), e.Other.ID, e.Other.What, e.Other.Until.Format(time.RFC3339))
}

// EntryError is an error about one exception of a list.
type EntryError struct {
	Index int // in the list, from 0
	error
}

// Unwrap returns the error itself.
func (e *EntryError) Unwrap() error { return e.error }

// ErrFull reports that max_exceptions are in force. Nothing was changed.
var ErrFull = errors.New("there are max_exceptions exceptions; remove some, or raise max_exceptions")

// ErrUnknown reports that there is no exception with an ID.
var ErrUnknown = errors.New("there is no exception with this ID; it may have ended")

// Target returns what the exception is from: rule 201, limit edge.user, or everything.
func (x *Exception) Target() string {
	if x.What == Ban {
		return "everything"
	}
	if x.Limit != "" {
		return "limit " + printable.Text(x.Limit)
	}
	return fmt.Sprintf("rule %d", x.Rule)
}

// resolve returns the exception for the engine by a rule set, or by the imported limits, and its
// canonical identity. The error is an InvalidError.
func (x *Exception) resolve(set *rules.Set, limits Limits) (engine.Exception, map[string]string, error) {
	if x.What == Ban {
		return x.resolveBan()
	}
	if x.Limit == "" {
		return x.resolveRule(set)
	}
	if limits == nil || x.Rule != 0 {
		return engine.Exception{}, nil, invalid("an exception has a rule, or at a service with imported limits a limit")
	}
	match, identity, err := limits(x.Limit, x.Identity)
	if err != nil {
		return engine.Exception{}, nil, InvalidError{err}
	}
	return x.of(match), identity, nil
}

// of returns the exception of a match for the engine.
func (x *Exception) of(match rules.Match) engine.Exception {
	return engine.Exception{ID: x.ID, Match: match, Kind: kinds[x.What], Count: x.Count, Until: x.Until.UnixMilli()}
}

// resolveRule is resolve for a rule.
func (x *Exception) resolveRule(set *rules.Set) (engine.Exception, map[string]string, error) {
	r := set.Rule(x.Rule)
	if r == nil {
		return engine.Exception{}, nil, invalid("there is no rule %d; want a number after return= or a name after name= in the rule files", x.Rule)
	}
	match, err := r.Identify(rules.MakeParams(x.Identity))
	if err != nil {
		return engine.Exception{}, nil, InvalidError{err}
	}
	identity := make(map[string]string)
	for _, p := range match.Values() {
		identity[p.Name] = p.Value
	}
	return x.of(match), identity, nil
}

// check checks a new exception and gives it its canonical identity.
func (x *Exception) check(set *rules.Set, limits Limits, now time.Time) error {
	resolved, identity, err := x.resolve(set, limits)
	if err != nil {
		return err
	}
	r := resolved.Match.Rule
	if r == nil { // a ban
		if err := checkKnown(set, limits, resolved.Params); err != nil {
			return err
		}
	}
	switch {
	case kinds[x.What] == 0:
		return invalid("what is %q; want count, allow, deny or ban", x.What)
	case x.What != Count && x.Count != 0:
		return invalid("a count is set for %s; want it with count only", x.What)
	case !x.Until.After(now):
		return invalid("it ends at %s, which has passed", x.Until.Format(time.RFC3339))
	case x.Until.After(now.Add(MaxSpan + clockStep)):
		return invalid("it ends at %s; want 31 days from now at most", x.Until.Format(time.RFC3339))
	case len(x.Note) > maxNote || len(x.Author) > maxNote:
		return invalid("the note or the author is longer than %d bytes", maxNote)
	case x.What == Deny && r.Result.Verdict() == rules.Allow:
		return invalid("%s cannot deny: its result allows", labelOf(r))
	case x.What == Count:
		if err := x.checkCount(r); err != nil {
			return err
		}
	}
	for _, name := range x.Masked {
		if _, known := identity[name]; !known {
			return invalid("masked has %.100q, which is no parameter of the identity", name)
		}
	}
	x.Identity, x.Handle = identity, ""
	return x.checkRecord()
}

// labelOf returns the name of a rule, or of the imported limit by which it counts.
func labelOf(r *rules.Rule) string {
	if r.Return == 0 {
		return "limit " + printable.Text(r.Name)
	}
	return "rule " + r.Label()
}

// checkRecord checks the form in which a new exception is stored.
func (x *Exception) checkRecord() error {
	if x.Signature != "" && (len(x.ID) != idLength || !httptext.ValidRequestID(x.ID) || len(x.Signature) > maxNote) {
		return invalid("a signed exception has the ID %.40q; want the ID from /api/v1/exceptions/prepare, and a signature", x.ID)
	}
	if len(x.encode()) > maxRecord {
		return invalid("it is longer than %d bytes", maxRecord)
	}
	return nil
}

// checkCount checks the count of a new exception for a rule.
func (x *Exception) checkCount(r *rules.Rule) error {
	switch {
	case !method.Of(r.Method).Replaces:
		return invalid("%s has no count that an exception can replace: it is %s", labelOf(r), r.Method)
	case x.Count < 1:
		return invalid("the count is %d; want 1 or more", x.Count)
	}
	limits := r.Limits
	for _, threshold := range []*int64{&limits.Time, &limits.Burst, &limits.Base} {
		*threshold = max(*threshold, 1) // a threshold that depends on the request may be unlimited
	}
	if _, possible := r.WithCount(limits, x.Count); !possible {
		return invalid("%s cannot count %d exactly", labelOf(r), x.Count)
	}
	return nil
}

// place identifies what an exception is for: a rule or a limit, and a canonical identity.
func (x *Exception) place() string {
	text, _ := json.Marshal(x.Identity) // sorted by name; it cannot fail
	if x.Limit != "" {
		return fmt.Sprintf("%q %s", x.Limit, text)
	}
	return fmt.Sprintf("%d %s", x.Rule, text)
}

func (x *Exception) encode() []byte {
	text, _ := json.Marshal(x) // it cannot fail
	return text
}

// parse reads an exception from Redis, which may hold anything.
func parse(place, text string) (Exception, error) {
	var x Exception
	if len(text) > maxRecord {
		return x, errors.New("it is too long")
	}
	if err := json.Unmarshal([]byte(text), &x); err != nil {
		return x, err
	}
	switch {
	case x.ID == "" || len(x.ID) > maxNote || !httptext.ValidRequestID(x.ID):
		return x, errors.New("it has no valid ID")
	case kinds[x.What] == 0:
		return x, errors.New("it is neither count, allow, deny nor ban")
	case x.What == Count && x.Count < 1:
		return x, errors.New("its count is out of range")
	case x.place() != place:
		return x, errors.New("it is at the place of another rule or identity")
	}
	return x, nil
}
