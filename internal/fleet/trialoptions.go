package fleet

import (
	"fmt"
	"time"
)

// TrialOptions are the options of a trial.
type TrialOptions struct {
	Length time.Duration // 1 s … 31 days
	// Then is what follows: enforce brings the version into force, keep and ask do not.
	Then string
	// AbortAbove ends the trial if more than this share of the requests, in percent,
	// would be newly refused; 0 never does.
	AbortAbove float64
}

// maxTrial is the longest trial.
const maxTrial = 31 * 24 * time.Hour

// isSequel reports whether a word is one of TrialOptions.Then.
func isSequel(word string) bool { return word == "enforce" || word == "keep" || word == "ask" }

func (t *TrialOptions) check() error {
	switch {
	case t.Length < time.Second || t.Length > maxTrial:
		return fmt.Errorf("its trial lasts %v; want 1s … 31 days", t.Length)
	case !isSequel(t.Then):
		return fmt.Errorf("what follows its trial is %q; want enforce, keep or ask", t.Then)
	case t.AbortAbove < 0 || t.AbortAbove > 100:
		return fmt.Errorf("the share that aborts its trial is %v %%; want 0 … 100", t.AbortAbove)
	}
	return nil
}
