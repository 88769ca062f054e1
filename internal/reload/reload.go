// Package reload loads rule sets from files and activates a new generation when
// the files change. A generation is complete and valid, or it is not activated.
//
// A rule set is active while the service decides with it. Files are stable when
// their content has not changed for a short time, and unstable otherwise.
package reload

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"sync"
	"time"

	"github.com/koalagate/koalagate/internal/delay"
	"github.com/koalagate/koalagate/internal/pace"
	"github.com/koalagate/koalagate/rules"
)

// These times, together with reading the files, determine the time from a change
// to the new rules.
const (
	// gatherDelay is the time from an event of the operating system to the check
	// of the files: saving a file causes several events.
	gatherDelay = 20 * time.Millisecond
	// settleTime is the time for which files must not change after they were read
	// to count as completely written.
	settleTime = 50 * time.Millisecond
	// maxTries is the number of times that unstable files are read before Run
	// waits for the next event or interval.
	maxTries = 10
	// pollShare bounds the time spent on checks: the time between two checks at
	// intervals is at least pollShare times the duration of one. Comparing 100,000
	// files takes a second, and reading them several.
	pollShare = 20
	// eventShare bounds the time spent on checks after events that concern no rule
	// file, for example a log in the same folder: after such a check, the next
	// event waits for eventShare times its duration.
	eventShare = 3
)

// Options configures a Reloader. Only Files is required.
type Options struct {
	Files Files
	// Interval is the time between two checks of the files, whether or not the
	// operating system reports changes. It is longer for so many files that
	// checks would take more than a twentieth of the time. The default is 2 s.
	Interval time.Duration
	// StateDir is a folder for this instance alone that keeps a copy of the last
	// active rules, which are used at startup if the files are invalid. "" keeps
	// no copy.
	StateDir string
	// Notify is called with the new state whenever it changes, in the goroutine
	// of First or Run. It may be nil.
	Notify func(State)
	// Logger receives a line for every generation and every rejection; the
	// default is slog.Default.
	Logger *slog.Logger
	// Clock returns the time for State, and measures the duration of checks; the
	// default is time.Now.
	Clock func() time.Time
}

// Reloader keeps the active rules in step with the files.
type Reloader struct {
	options Options
	trigger chan struct{}

	mu    sync.Mutex
	state State

	// The rest belongs to the goroutine that loads: the caller of First, then of
	// Run.
	sleep    func(context.Context, time.Duration) bool
	noEvents bool                    // do not use events of the operating system
	last     *reader                 // of the most recent attempt
	active   *rules.Set              // nil before the first
	rejected [sha256.Size]byte       // the content that was rejected last
	reported map[reportedFinding]int // the findings about active, and how often each occurs
	unstable bool                    // the files were unstable when they were last read
	slow     bool                    // a check took so long that the interval is longer
}

// New returns a Reloader, without reading any file.
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
	return &Reloader{options: o, trigger: make(chan struct{}, 1), sleep: delay.Wait, last: newReader(nil)}
}

// Trigger makes Run load the files at once, whether or not they changed. It does
// not wait, and is safe for concurrent use.
func (r *Reloader) Trigger() {
	select {
	case r.trigger <- struct{}{}:
	default: // a load is already pending
	}
}

// First loads the initial rules: the rules of the files or, if the files are invalid,
// the copy in StateDir. It must return a set that is not nil before Run is
// called.
func (r *Reloader) First() (*rules.Set, rules.Findings, error) {
	set, findings, err := r.options.Files.load(context.Background(), r.last)
	if err == nil && !findings.HasErrors() {
		r.accept(context.Background(), set, findings, func(*rules.Set) {}) // the caller gets them
		return set, findings, err
	}
	if restored := r.restore(findings, err); restored != nil {
		return restored, nil, nil
	}
	return set, findings, err
}

// Run watches the files and passes every new generation to apply, until ctx is
// done.
func (r *Reloader) Run(ctx context.Context, apply func(*rules.Set)) {
	w := newWatch(r.options.Logger, r.noEvents)
	defer w.close()
	w.follow(r.watched())
	poll := time.NewTimer(r.options.Interval)
	defer poll.Stop()
	// The first check finds changes between First and the start of the watch.
	due := time.NewTimer(0)
	defer due.Stop()
	gathering := true
	var quiet time.Time // until then, events wait
	for {
		forced := false
		select {
		case <-ctx.Done():
			return
		case <-w.events():
			if !gathering {
				gathering = true
				due.Reset(max(gatherDelay, quiet.Sub(r.options.Clock())))
			}
			continue
		case err := <-w.errors():
			r.options.Logger.Warn("file events were lost; checking the rule files", "error", err)
		case <-due.C:
			gathering = false
		case <-poll.C:
		case <-r.trigger:
			forced = true
		}
		began := r.options.Clock()
		// Unstable files may have become stable with their previous content.
		isDue := r.last.changed() || forced || r.unstable
		if isDue {
			r.load(ctx, apply, forced)
		}
		// A folder watched for the first time has reported no events until now.
		if w.follow(r.watched()) && !gathering {
			gathering = true
			due.Reset(gatherDelay)
		}
		ended := r.options.Clock()
		took := ended.Sub(began)
		if quiet = ended; !isDue {
			quiet = ended.Add(eventShare * took)
		}
		poll.Reset(r.pollInterval(took))
	}
}

// pollInterval returns the time until the next check at intervals, after one that took
// the given time. The first that exceeds the configured interval is logged.
func (r *Reloader) pollInterval(took time.Duration) time.Duration {
	interval := max(r.options.Interval, pollShare*took)
	if interval > r.options.Interval && !r.slow {
		r.slow = true
		r.options.Logger.Warn("checking the rule files takes long; checking them less often", "took", took.String(), "interval", interval.String(),
			"remedy", "use fewer files; changes that the operating system reports still apply at once")
	}
	return interval
}

// watched returns all paths that the rule set depends on, including paths that
// do not exist yet.
func (r *Reloader) watched() []string {
	return append(r.last.paths(), r.options.Files.Paths...)
}

// load reads the files until they are stable, and processes the result. It pauses between pieces of
// work: decisions go on.
func (r *Reloader) load(ctx context.Context, apply func(*rules.Set), forced bool) {
	ctx = pace.With(ctx)
	attempt := r.last
	for range maxTries {
		attempt = newReader(attempt)
		set, findings, err := r.options.Files.load(ctx, attempt)
		if !r.sleep(ctx, settleTime) {
			return
		}
		attempt.before = nil // no longer needed, and would retain all earlier readers
		if attempt.changed() {
			continue
		}
		r.last, r.unstable = attempt, false
		switch {
		case err != nil || findings.HasErrors():
			r.reject(findings, err, forced)
		case set.Hash != r.State().Hash:
			r.accept(context.WithoutCancel(ctx), set, findings, apply)
		default:
			r.confirm(forced)
		}
		return
	}
	r.noteUnstable()
}

// noteUnstable records that the files are unstable, so that their content is not
// active.
func (r *Reloader) noteUnstable() {
	if r.unstable {
		return // already reported
	}
	const problem = "the rule files keep changing; keeping the active rules until the files are stable"
	r.unstable = true
	r.rejected = [sha256.Size]byte{} // log the same error again once the files are stable
	r.change(func(s *State) { s.LastError, s.LastErrorAt = problem, r.options.Clock() })
	r.options.Logger.Warn(problem)
}

// accept applies a new generation and records it at once: State names the rules that decide. It
// compares it with the one before beforehand, with the pauses of ctx, which must not end.
func (r *Reloader) accept(ctx context.Context, set *rules.Set, findings rules.Findings, apply func(*rules.Set)) {
	r.rejected = [sha256.Size]byte{}
	findings = append(findings, rules.Renumbered(r.active, set)...)
	var changes *Changes
	if r.active != nil {
		changes = ChangesOf(rules.ComparePausing(r.active, set, pace.Pauses(ctx)))
	}
	r.active = set
	apply(set)
	state := r.change(func(s *State) {
		s.Generation++
		s.Hash, s.Rules, s.LoadedAt, s.LastError = set.Hash, len(set.Rules), r.options.Clock(), ""
		s.Changes, s.Restored, s.SavedAt = changes, false, time.Time{}
	})
	line := []any{"generation", state.Generation, "rules", state.Rules, "hash", state.Hash}
	if changes != nil {
		line = append(line, "changes", changes.String())
	}
	r.options.Logger.Info("rules are active", line...)
	r.report(findings)
	r.save(set)
}

// reject records that the files are invalid. The same content is logged once,
// unless the load is forced.
func (r *Reloader) reject(findings rules.Findings, err error, forced bool) {
	content := r.last.content()
	if content == r.rejected && !forced {
		return
	}
	r.rejected = content
	problems := describe(findings, err)
	state := r.change(func(s *State) {
		s.LastError, s.LastErrorAt = summary(problems), r.options.Clock()
	})
	r.options.Logger.Error("the rule files are invalid; keeping the active rules", "generation", state.Generation, "findings", problems)
}

// confirm records that the files contain the rules that are already active.
func (r *Reloader) confirm(forced bool) {
	r.rejected = [sha256.Size]byte{}
	if r.State().LastError != "" {
		state := r.change(func(s *State) { s.LastError, s.Restored, s.SavedAt = "", false, time.Time{} })
		r.options.Logger.Info("the rule files match the active rules again", "generation", state.Generation)
	} else if forced {
		r.options.Logger.Info("the rule files have not changed", "generation", r.State().Generation)
	}
}
