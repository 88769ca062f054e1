package operations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/internal/replay"
	"github.com/koalagate/koalagate/internal/trace"
	"github.com/koalagate/koalagate/internal/whatif"
)

// DecisionLog is the decision log of an instance.
type DecisionLog struct {
	Path  string // "" without one
	Every int    // one in so many calls is in it; see trace.LogOptions
}

// Replay is a request to decide the last calls in the decision log by a draft.
type Replay struct {
	Draft
	SinceMS int64 `json:"since_ms"` // how far back, 1 … 3,600,000
}

// Replayed has the differences between a draft and the rules in force about recorded
// calls. Both decide with counters that begin empty.
type Replayed struct {
	Calls int        `json:"calls"`
	From  *time.Time `json:"from,omitempty"` // of the earliest call; nil without calls
	To    *time.Time `json:"to,omitempty"`   // of the latest call
	// Whole is false if the log has more calls of this time than a replay reads or decides,
	// or has room to count.
	Whole bool `json:"whole"`
	Every int  `json:"every"` // one in so many calls is in the log
	// Masked are parameters whose values the log masks although rules compare them: these
	// rules decide differently here.
	Masked       []string      `json:"masked"`
	NewlyRefused int64         `json:"newly_refused"` // by the draft alone
	NewlyAllowed int64         `json:"newly_allowed"` // refused by the rules in force alone
	Rules        []whatif.Rule `json:"rules"`         // the ones with the most differences first
}

const (
	// maxReplay is the number of bytes of the decision log that a replay reads.
	maxReplay = 64 << 20
	// replayTime is how long a replay decides: less than a browser waits for the answer.
	replayTime = 15 * time.Second
	// maxSince is how far back a replay begins.
	maxSince = time.Hour
)

// ErrNoLog is the error of a replay at an instance without a decision log.
var ErrNoLog = errors.New("this instance writes no decision log that can be replayed; set decision_log to a file")

// Replay decides the last calls in the decision log by the rules in force and by a draft.
// The error is ErrNoLog, an InputError, an error of the log, or comes from ctx.
func (d *Desk) Replay(ctx context.Context, x *Replay) (*Replayed, error) {
	since := time.Duration(x.SinceMS) * time.Millisecond
	if since <= 0 || since > maxSince || x.SinceMS > maxSince.Milliseconds() {
		return nil, invalid("since_ms is %d; want 1 … %d", x.SinceMS, maxSince.Milliseconds())
	}
	sources, err := sourcesOf(x.Files)
	if err != nil {
		return nil, err
	}
	now := d.inForce()
	switch {
	case d.log.Path == "":
		return nil, ErrNoLog
	case now == nil:
		return nil, errNoRules
	}
	draft, list, err := d.parse(ctx, now, sources)
	if err != nil {
		return nil, err
	}
	if list.HasErrors() {
		return nil, InputError{&reload.FindingsError{Findings: list}}
	}
	tail, err := trace.OpenTail(d.log.Path, maxReplay)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoLog, err)
	}
	defer tail.Close()
	ctx, cancel := context.WithTimeout(ctx, replayTime)
	defer cancel()
	done := &Replayed{Whole: true, Every: max(d.log.Every, 1), Masked: []string{}}
	begin := time.Now().Add(-since).UnixMilli()
	found, err := replay.Diff(ctx, replay.DiffOptions{
		Old: now, New: draft, Traces: trace.NewFiles(tail), Since: begin, MaxRules: d.maxRules,
		OnMasked: func(m replay.MaskedParam) {
			if !slices.Contains(done.Masked, m.Name) {
				done.Masked = append(done.Masked, m.Name)
			}
		},
		OnInexact: func(string) { done.Whole = false },
	})
	switch {
	case errors.Is(err, replay.ErrInterrupted):
		done.Whole = false
	case engine.IsInvalid(err): // a call meets more rules than max_rules
		return nil, InputError{fmt.Errorf("the decision log cannot be replayed: %w", err)}
	case err != nil:
		return nil, fmt.Errorf("the decision log cannot be replayed: %w", err)
	}
	done.take(found)
	if !tail.Whole && found.Skipped == 0 {
		done.Whole = false
	}
	return done, nil
}

// take takes over the result of the replay.
func (r *Replayed) take(found *replay.Difference) {
	r.Calls, r.NewlyRefused, r.NewlyAllowed, r.Rules = found.Calls, found.NewlyRefused, found.NewlyAllowed, found.Rules
	if found.Calls > 0 {
		from, to := time.UnixMilli(found.From).UTC(), time.UnixMilli(found.To).UTC()
		r.From, r.To = &from, &to
	}
}
