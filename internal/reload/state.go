package reload

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/koalagate/koalagate/rules"
)

// State describes the active rules and the result of the last attempt to load
// new ones.
type State struct {
	Generation uint64    // 1 for the rules at startup, 0 before
	Hash       string    // of the active rule set
	Rules      int       // the number of active rules
	LoadedAt   time.Time // when they became active
	// Changes report what the last reload changed; nil for the rules at startup.
	Changes *Changes
	// LastError is the reason why the current files are not active; "" if they
	// are.
	LastError   string
	LastErrorAt time.Time // of the last rejection, even if it has been fixed
	// Fault says what LastError is about.
	Fault Fault
	// Release describes a published version; nil for rules of files.
	Release *Release
	// Unready is the reason why the service cannot serve by the active rules although
	// it has some, or why it has none yet; "" if it can.
	Unready string
	// Restored reports that the active rules come from StateDir, because the
	// files were invalid when the service started.
	Restored bool
	SavedAt  time.Time // when restored rules were saved; zero if none were restored
}

// IsReady reports whether the service can serve by the active rules.
func (s *State) IsReady() bool { return s.Generation > 0 && s.Unready == "" }

// Fault is what keeps an instance from following the rules.
type Fault string

const (
	// FaultRules is the zero value: the newer rules themselves.
	FaultRules Fault = ""
	// FaultAway says that Redis, which has the published rules, does not answer.
	FaultAway Fault = "away"
	// FaultLost says that Redis has lost the version that the instance decides by: it names
	// an older one in force, or none.
	FaultLost Fault = "lost"
)

// Release describes a published version of the rules.
type Release struct {
	Version uint64    `json:"version"`
	Author  string    `json:"author"`
	Note    string    `json:"note"`
	At      time.Time `json:"published_at"`
}

// State returns the current state. It is safe for concurrent use.
func (r *Reloader) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// change updates the state and passes it to Notify.
func (r *Reloader) change(f func(*State)) State {
	r.mu.Lock()
	f(&r.state)
	state := r.state
	r.mu.Unlock()
	r.options.Notify(state)
	return state
}

// describe returns one text per problem.
func describe(findings rules.Findings, err error) []string {
	var problems []string
	if err != nil {
		problem := err.Error()
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			problem += "; raise the limit of open files (ulimit -n, LimitNOFILE)"
		}
		problems = append(problems, problem)
	}
	for _, f := range findings {
		problems = append(problems, f.Error())
	}
	return problems
}

// summary returns the first problem and the number of the others.
func summary(problems []string) string {
	if len(problems) > 1 {
		return fmt.Sprintf("%s (and %d more)", problems[0], len(problems)-1)
	}
	return problems[0]
}
