package trial

import (
	"errors"
	"time"

	"github.com/koalagate/koalagate/internal/whatif"
)

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
	whatif.Found
}

// ErrNone is the error of a report if there was no trial.
var ErrNone = errors.New("there is no trial: koalagate publish --trial 15m PATH begins one, and koalagate serve --trial PATH tries rule files")

// Found returns the findings of the trial so far.
func (t *Trial) Found() whatif.Found {
	return t.found(func() whatif.Found { return t.tally.Found(whatif.ShownIdentities) })
}

// Shared returns the findings of the trial so far, for Tally.Merge at other instances.
func (t *Trial) Shared() whatif.Found { return t.found(t.tally.Shared) }

func (t *Trial) found(of func() whatif.Found) whatif.Found {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := of()
	f.Dropped = t.dropped.Load()
	return f
}

// Totals returns the counts of the trial so far.
func (t *Trial) Totals() whatif.Totals {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.tally.Totals()
	all.Dropped = t.dropped.Load()
	return all
}
