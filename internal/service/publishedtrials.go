package service

import (
	"context"
	"fmt"
	"time"

	"github.com/koalagate/koalagate/internal/delay"
	"github.com/koalagate/koalagate/internal/fleet"
	"github.com/koalagate/koalagate/internal/trial"
	"github.com/koalagate/koalagate/internal/whatif"
)

const (
	// trialRetry is the time between two attempts to begin a trial.
	trialRetry = time.Second
	// trialTimeout bounds a call of Redis about a trial.
	trialTimeout = 5 * time.Second
)

// want notes which published version is on trial, nil for none. It never waits.
func (r *trials) want(next *fleet.Tried) {
	r.mu.Lock()
	r.wanted = next
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default: // it is noted already
	}
}

// follow begins and ends the trials of published versions until ctx is done.
func (r *trials) follow(ctx context.Context) {
	delay.Every(ctx, trialRetry, r.changed, func() {
		r.mu.Lock()
		wanted, current := r.wanted, r.current
		r.mu.Unlock()
		switch {
		case wanted == nil && current != nil:
			r.endPublished(ctx, current)
		case wanted != nil && (current == nil || current.head.Version != wanted.Number):
			if err := r.beginPublished(ctx, wanted); err != nil {
				r.slow.Warn("a version is not tried here", "version", wanted.Number, "error", err)
			}
		}
	})
}

// beginPublished begins the trial of a version that is on trial in Redis.
func (r *trials) beginPublished(ctx context.Context, wanted *fleet.Tried) error {
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	now, err := r.s.app.Member().Records().TrialHead(ctx)
	switch {
	case err != nil:
		return err
	case now == nil || now.Number != wanted.Number || now.State != trial.Running:
		return nil // it has ended meanwhile
	}
	head := headOf(now)
	head.Hash = wanted.Set.Hash
	return r.begin(head, candidates{rules: wanted.Set}, fmt.Sprintf("trial:%d", wanted.Number), now.Until) //nolint:contextcheck // the last tally is written although the caller has left
}

// headOf returns the report of a trial in Redis without counts.
func headOf(t *fleet.Trial) *trial.Report {
	until := t.Until
	return &trial.Report{Version: t.Number, State: t.State, Detail: t.Detail, Began: t.Began, Until: &until, Then: t.Then, AbortAbove: t.AbortAbove}
}

// endPublished ends the trial here, for the reason that Redis states.
func (r *trials) endPublished(ctx context.Context, current *runningTrial) {
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	state, detail := trial.Ended, "it is not in Redis any more"
	if now, err := r.s.app.Member().Records().TrialHead(ctx); err == nil && now != nil && now.Number == current.head.Version && now.State != trial.Running {
		state, detail = now.State, now.Detail
	}
	r.end(state, detail) //nolint:contextcheck // the last tally is written although the caller has left
}

// tally writes the counts of the trial of a version at this instance to Redis.
func (r *trials) tally(t *runningTrial) {
	member := r.s.app.Member()
	if member == nil {
		return
	}
	found := t.trial.Shared()
	ctx, cancel := context.WithTimeout(context.Background(), trialTimeout)
	defer cancel()
	if err := member.WriteTally(ctx, &fleet.Tally{Number: t.head.Version, Requests: found.Requests, NewlyRefused: found.NewlyRefused, Report: found.Encode()}); err != nil {
		r.slow.Warn("the other instances do not know the counts of a trial", "version", t.head.Version, "error", err)
	}
}

// published returns the last trial of a version, with the counts of all instances.
func (r *trials) published(ctx context.Context) (*trial.Report, error) {
	records := r.s.app.Member().Records()
	last, err := records.Trial(ctx)
	switch {
	case err != nil:
		return nil, err
	case last == nil:
		return nil, trial.ErrNone
	}
	report := headOf(last)
	if m, _, err := records.Version(ctx, last.Number); err == nil { // else it has expired
		report.Hash = m.Hash
	}
	var all whatif.Tally
	for _, text := range last.Reports {
		if one, err := whatif.ParseFound(text); err == nil { // a damaged one is left out
			all.Merge(&one)
		}
	}
	report.Found = all.Found(whatif.ShownIdentities)
	return report, nil
}

// stopPublished ends the trial of a version at all instances.
func (r *trials) stopPublished(ctx context.Context) (*trial.Report, error) {
	stopped, err := r.s.app.Member().Records().StopTrial(ctx, "an operator stopped it")
	switch {
	case err != nil:
		return nil, err
	case !stopped:
		return nil, trial.ErrNone
	}
	return r.published(ctx)
}
