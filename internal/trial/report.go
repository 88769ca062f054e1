package trial

import (
	"encoding/json"
	"errors"
	"math"
	"time"
)

// Differences count calls about which the rules in force and those on trial differ.
type Differences struct {
	NewlyRefused int64 `json:"newly_refused"` // by the rules on trial alone
	NewlyAllowed int64 `json:"newly_allowed"` // refused by the rules in force alone
}

func (d *Differences) add(other *Differences) {
	d.NewlyRefused = sum(d.NewlyRefused, other.NewlyRefused)
	d.NewlyAllowed = sum(d.NewlyAllowed, other.NewlyAllowed)
}

// Sum returns the number of calls.
func (d *Differences) Sum() int64 { return sum(d.NewlyRefused, d.NewlyAllowed) }

// sum returns the sum of two counts, at most the largest number: reports may be forged.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Totals count the calls of a trial.
type Totals struct {
	// Requests is the number of calls that both decided, and Dropped the number of calls that
	// the trial left out because it was slower than the traffic or had no answer.
	Requests       int64 `json:"requests"`
	Dropped        int64 `json:"dropped"`
	RefusedInForce int64 `json:"refused_in_force"`
	RefusedOnTrial int64 `json:"refused_on_trial"`
	Differences
}

// Add adds the counts of another trial.
func (t *Totals) Add(other *Totals) {
	t.Requests = sum(t.Requests, other.Requests)
	t.Dropped = sum(t.Dropped, other.Dropped)
	t.RefusedInForce = sum(t.RefusedInForce, other.RefusedInForce)
	t.RefusedOnTrial = sum(t.RefusedOnTrial, other.RefusedOnTrial)
	t.add(&other.Differences)
}

// Found are the findings of a trial.
type Found struct {
	Totals
	// Rules are sorted by their differences, most first: rules on trial that newly refuse
	// calls, and rules in force whose refusals are newly allowed.
	Rules []Rule `json:"rules"`
}

// Rule are the differences of one rule.
type Rule struct {
	Rule int64  `json:"rule"` // its number; 0 for refusals without a rule
	Name string `json:"name"`
	Differences
	Identities []Identity `json:"identities"` // the ten with the most differences
}

// Identity is an identity that would notice a rule.
type Identity struct {
	Identity string `json:"identity"` // as decision_log_params shows it
	Differences
}

// The states of a trial.
const (
	Running = "running"
	Ended   = "ended"
	Aborted = "aborted" // by its condition
)

// Report is a trial with its findings. docs/formats.md describes its JSON document.
type Report struct {
	Version uint64     `json:"version"` // 0 for rule files
	State   string     `json:"state"`   // Running, Ended or Aborted
	Detail  string     `json:"detail"`  // why it ended
	Hash    string     `json:"hash"`    // of the rules on trial
	Began   time.Time  `json:"began"`
	Until   *time.Time `json:"until,omitempty"` // nil without an end
	Then    string     `json:"then,omitempty"`  // what follows: enforce, keep or ask
	// AbortAbove is the share of newly refused calls that aborts the trial, in percent;
	// 0 never does.
	AbortAbove float64 `json:"abort_above,omitempty"`
	Found
}

// ErrNone is the error of a report if there was no trial.
var ErrNone = errors.New("there is no trial: koalagate publish --trial 15m PATH begins one, and koalagate serve --trial PATH tries rule files")

// Found returns the findings of the trial so far.
func (t *Trial) Found() Found { return t.found(shownIdentities) }

// Shared returns the findings of the trial so far, for Merge with other instances.
func (t *Trial) Shared() Found {
	f := t.found(sharedIdentities)
	f.Rules = f.Rules[:min(len(f.Rules), sharedRules)]
	for i := sharedNamed; i < len(f.Rules); i++ {
		f.Rules[i].Identities = []Identity{}
	}
	return f
}

func (t *Trial) found(identities int) Found {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.counts.report(identities)
	f.Dropped = t.dropped.Load()
	return f
}

// Totals returns the counts of the trial so far.
func (t *Trial) Totals() Totals {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.counts.totals
	all.Dropped = t.dropped.Load()
	return all
}

// The bounds of the reports of other instances, ten times what Shared returns.
const (
	maxCount          = 1 << 53
	maxReadRules      = 10 * sharedRules
	maxReadIdentities = 10 * sharedNamed * sharedIdentities
)

// Encode returns the findings as text, for ParseFound at other instances.
func (f *Found) Encode() []byte {
	text, _ := json.Marshal(f) // numbers and strings can always be encoded
	return text
}

// ParseFound reads the findings of another instance. The text may be hostile. Fields of newer
// programs are ignored.
func ParseFound(text []byte) (Found, error) {
	var f Found
	if err := json.Unmarshal(text, &f); err != nil {
		return Found{}, err
	}
	identities := 0
	isValid := isCount(f.Requests, f.Dropped, f.RefusedInForce, f.RefusedOnTrial, f.NewlyRefused, f.NewlyAllowed) && len(f.Rules) <= maxReadRules
	for i := range f.Rules {
		r := &f.Rules[i]
		identities += len(r.Identities)
		isValid = isValid && r.Rule >= 0 && isCount(r.NewlyRefused, r.NewlyAllowed) && identities <= maxReadIdentities
		for j := range r.Identities {
			d := &r.Identities[j]
			isValid = isValid && isCount(d.NewlyRefused, d.NewlyAllowed)
		}
	}
	if !isValid {
		return Found{}, errors.New("the report of a trial has an unknown form")
	}
	return f, nil
}

func isCount(list ...int64) bool {
	for _, n := range list {
		if n < 0 || n > maxCount {
			return false
		}
	}
	return true
}
