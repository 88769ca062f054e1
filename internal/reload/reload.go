// Package reload makes rule sets of files, and puts a new one in force when
// the files change: whole, checked and at once, or not at all.
package reload

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/koalagate/koalagate/rules"
)

// The grain of a reload, which together with the reading is the time from a
// change to the new rules.
const (
	// gather is how long after a report of the system the files are looked at:
	// what is saved at once makes several reports.
	gather = 20 * time.Millisecond
	// settle is how long what was read must stay as it is to count as written
	// to its end.
	settle = 50 * time.Millisecond
	// tries is how often files that keep moving are read again before the next
	// report or interval is waited for.
	tries = 10
)

// Options are what a Reloader works with.
type Options struct {
	Files Files
	// Interval is the time between two looks at the content of the files,
	// whether or not the system reports changes. The default is 2 s.
	Interval time.Duration
	// StateDir is a folder of this instance's own, in which the rules that came
	// into force last are kept, for a start beside files that are not fit to be.
	// "" keeps none.
	StateDir string
	// Notify is called with the new state whenever it changes, in the
	// goroutine of Run. Nil for nobody.
	Notify func(State)
	// Logger hears of every generation and every refusal; the default is
	// slog.Default.
	Logger *slog.Logger
	// Clock is the time for State; the default is time.Now.
	Clock func() time.Time
}

// State says what is in force, and what became of the last attempt.
type State struct {
	Generation uint64    // 1 for the rules of the start, 0 before them
	Hash       string    // that of the rule set in force
	Rules      int       // their number
	LoadedAt   time.Time // when they came into force
	// LastError says why the files as they are now are not in force; "" if
	// they are.
	LastError   string
	LastErrorAt time.Time // of the last refusal, even if it is mended
	// Restored tells that the rules in force are those of StateDir: the files
	// were not fit to be when the service started.
	Restored bool
	SavedAt  time.Time // when those came into force; zero if none were restored
}

// Reloader keeps the rules in force at what the files say.
type Reloader struct {
	options Options
	trigger chan struct{}

	mu    sync.Mutex
	state State

	// The rest belongs to the goroutine that loads: that of First, then Run's.
	sleep   func(context.Context, time.Duration) bool
	deaf    bool              // do without the system's reports
	last    *reader           // what the newest attempt saw
	inForce *rules.Set        // nil before the first
	refused [sha256.Size]byte // the content that was refused last
	moving  bool              // the files did not rest when they were last read
}

// New returns a Reloader that has not read anything yet.
func New(o Options) *Reloader {
	if o.Interval == 0 {
		o.Interval = 2 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Notify == nil {
		o.Notify = func(State) {}
	}
	return &Reloader{options: o, trigger: make(chan struct{}, 1), sleep: sleep, last: newReader(nil)}
}

// State is the state now. It is safe for concurrent use.
func (r *Reloader) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// Trigger asks for a load now, whether or not anything changed. It does not
// wait, and is safe for concurrent use.
func (r *Reloader) Trigger() {
	select {
	case r.trigger <- struct{}{}:
	default: // one is asked for already
	}
}

// First loads the rules that the service starts with: those of the files, else
// those that were kept in StateDir. It must succeed, with a set that is not nil,
// before Run is called.
func (r *Reloader) First() (*rules.Set, rules.Findings, error) {
	set, findings, err := r.options.Files.load(r.last)
	if err == nil && !findings.HasErrors() {
		r.accept(set, findings)
		return set, findings, err
	}
	if kept := r.restore(findings, err); kept != nil {
		return kept, nil, nil
	}
	return set, findings, err
}

// Run watches the files and hands every new generation to apply, until ctx is
// done.
func (r *Reloader) Run(ctx context.Context, apply func(*rules.Set)) {
	w := newWatch(r.options.Logger, r.deaf)
	defer w.close()
	w.follow(r.watched())
	looks := time.NewTicker(r.options.Interval)
	defer looks.Stop()
	// The first look is for what changed between First and the watch.
	due := time.NewTimer(0)
	defer due.Stop()
	gathering := true
	for {
		forced := false
		select {
		case <-ctx.Done():
			return
		case <-w.events():
			if !gathering {
				gathering = true
				due.Reset(gather)
			}
			continue
		case err := <-w.errors():
			r.options.Logger.Warn("reports of changed rule files were lost; looking at the files", "error", err)
		case <-due.C:
			gathering = false
		case <-looks.C:
		case <-r.trigger:
			forced = true
		}
		// Files that moved may have come to rest as they were before.
		if forced || r.moving || r.last.changed() {
			r.load(ctx, apply, forced)
		}
		// A folder that is new among them reported nothing to us until now.
		if w.follow(r.watched()) && !gathering {
			gathering = true
			due.Reset(gather)
		}
	}
}

// watched are all paths that the rule set depends on, those among them that do
// not exist yet too.
func (r *Reloader) watched() []string {
	return append(r.last.paths(), r.options.Files.Paths...)
}

// load reads the files until they rest, and lets the outcome take effect.
func (r *Reloader) load(ctx context.Context, apply func(*rules.Set), forced bool) {
	seen := r.last
	for range tries {
		seen = newReader(seen)
		set, findings, err := r.options.Files.load(seen)
		if !r.sleep(ctx, settle) {
			return
		}
		seen.before = nil // it has served, and would keep all its forerunners
		if seen.changed() {
			continue
		}
		r.last, r.moving = seen, false
		switch {
		case err != nil || findings.HasErrors():
			r.refuse(findings, err, forced)
		case set.Hash != r.State().Hash:
			apply(set)
			r.accept(set, findings)
		default:
			r.confirm(forced)
		}
		return
	}
	r.await()
}

// await notes that the files do not rest, so that what they say is not in force.
func (r *Reloader) await() {
	if r.moving {
		return // that was told
	}
	const fault = "the rule files keep changing; the rules in force stay until they rest"
	r.moving = true
	r.refused = [sha256.Size]byte{} // at rest, the same fault is worth telling again
	r.change(func(s *State) { s.LastError, s.LastErrorAt = fault, r.options.Clock() })
	r.options.Logger.Warn(fault)
}

// accept notes a new generation.
func (r *Reloader) accept(set *rules.Set, findings rules.Findings) {
	r.refused = [sha256.Size]byte{}
	findings = append(findings, rules.Renumbered(r.inForce, set)...)
	r.inForce = set
	state := r.change(func(s *State) {
		s.Generation++
		s.Hash, s.Rules, s.LoadedAt, s.LastError = set.Hash, len(set.Rules), r.options.Clock(), ""
		s.Restored, s.SavedAt = false, time.Time{}
	})
	r.options.Logger.Info("rules are in force", "generation", state.Generation, "rules", state.Rules, "hash", state.Hash)
	for _, f := range findings {
		r.options.Logger.Warn("a rule file wants a look", "finding", f.Error())
	}
	r.keep(set)
}

// refuse notes that the files are not fit to be in force. The same content is
// logged once, unless somebody asks.
func (r *Reloader) refuse(findings rules.Findings, err error, forced bool) {
	content := r.last.content()
	if content == r.refused && !forced {
		return
	}
	r.refused = content
	faults := describe(findings, err)
	state := r.change(func(s *State) {
		s.LastError, s.LastErrorAt = summary(faults), r.options.Clock()
	})
	r.options.Logger.Error("the rule files are refused; the rules in force stay", "generation", state.Generation, "findings", faults)
}

// confirm notes that the files say what is in force already.
func (r *Reloader) confirm(forced bool) {
	r.refused = [sha256.Size]byte{}
	if r.State().LastError != "" {
		state := r.change(func(s *State) { s.LastError, s.Restored, s.SavedAt = "", false, time.Time{} })
		r.options.Logger.Info("the rule files say again what is in force", "generation", state.Generation)
	} else if forced {
		r.options.Logger.Info("the rule files have not changed", "generation", r.State().Generation)
	}
}

func (r *Reloader) change(f func(*State)) State {
	r.mu.Lock()
	f(&r.state)
	state := r.state
	r.mu.Unlock()
	r.options.Notify(state)
	return state
}

// describe words each fault, one text a fault.
func describe(findings rules.Findings, err error) []string {
	var faults []string
	if err != nil {
		faults = append(faults, err.Error())
	}
	for _, f := range findings {
		faults = append(faults, f.Error())
	}
	return faults
}

// summary is the first fault and the number of the others.
func summary(faults []string) string {
	if len(faults) > 1 {
		return fmt.Sprintf("%s (and %d more)", faults[0], len(faults)-1)
	}
	return faults[0]
}

// sleep waits, and tells whether it did so to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
