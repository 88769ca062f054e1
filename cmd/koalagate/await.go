package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/koalagate/koalagate/internal/adminapi"
	"github.com/koalagate/koalagate/internal/delay"
	"github.com/koalagate/koalagate/internal/display"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/internal/trial"
)

// published is the document of a publish.
type published struct {
	Version   uint64     `json:"version"`
	Hash      string     `json:"hash"`
	Ready     int        `json:"ready"` // instances
	InForceAt *time.Time `json:"in_force_at,omitempty"`
	// TrialUntil is the planned end of the trial.
	TrialUntil *time.Time `json:"trial_until,omitempty"`
	// Changes are from the version that was in force; nil for the first version, and if the
	// instance cannot read the version.
	Changes *reload.Changes `json:"changes,omitempty"`
}

const (
	// pollInterval is the time between two questions about a proposed version.
	pollInterval = 100 * time.Millisecond
	// trialPoll is the time between two questions about a trial.
	trialPoll = time.Second
	// enforceTime is the time in which a version comes into force after its trial: the
	// instances have 30 s.
	enforceTime = time.Minute
)

// waiting waits for what becomes of a proposed version.
type waiting struct {
	*program
	*publishing
	number  uint64
	hash    string
	changes *reload.Changes // from the version that was in force; nil if they are unknown
	inForce string          // the signature with which the version comes into force; "" for none
	ready   int             // the highest number of ready instances
}

// end waits until the version is in force or on trial, or refused. If a signed version
// comes into force after its trial, it waits for that, too.
func (w *waiting) end(ctx context.Context) error {
	now, err := w.await(ctx, w.wait+w.timeout, w.trial == nil)
	switch {
	case err != nil:
		return err
	case now.State == "in_force":
		return w.reportInForce(ctx, now)
	case w.inForce == "" || w.trial == nil || w.trial.Then != "enforce":
		return w.reportTrial(now)
	}
	began := time.Now()
	fmt.Fprintf(w.stderr, "version %d is on trial until %s; it comes into force then if this command, which has the key, still runs\n", w.number, now.At.Format(time.RFC3339))
	if err := w.awaitTrial(ctx, *now.At); err != nil {
		return err
	}
	// Whoever can write to Redis can end a trial there.
	delay.Wait(ctx, time.Duration(w.trial.LengthMS)*time.Millisecond-time.Since(began))
	if now, err = w.await(ctx, enforceTime, true); err != nil {
		return err
	}
	return w.reportInForce(ctx, now)
}

// await asks until the version is in force or on trial. When the instances are ready for a
// version that maySign, it sends the signature with which the version comes into force.
func (w *waiting) await(ctx context.Context, limit time.Duration, maySign bool) (*adminapi.Progress, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	path := fmt.Sprintf("proposals/%d", w.number)
	for {
		now := new(adminapi.Progress)
		if err := w.call(ctx, w.environ, http.MethodGet, path, nil, now); err != nil {
			return nil, err
		}
		w.ready = max(w.ready, len(now.Ready)) // of a version that waits
		if now.State == "ready" && maySign && w.inForce != "" {
			if err := w.call(ctx, w.environ, http.MethodPost, path, &adminapi.Enforcement{Signature: w.inForce}, now); err != nil {
				return nil, err
			}
		}
		switch now.State {
		case "pending", "ready":
		case "in_force", "trial":
			return now, nil
		case "conflict":
			return nil, conflict{fmt.Errorf("version %d: %s; nothing changed", w.number, display.Text(now.Detail))}
		default:
			return nil, failed("version %d is %s; nothing changed\n%s", w.number, display.Text(now.State), display.Text(now.Detail))
		}
		if !delay.Wait(ctx, pollInterval) {
			return nil, failed("version %d: no answer in time; it lapses at its deadline", w.number)
		}
	}
}

// awaitTrial waits until the trial of the version is over and its publish begins.
func (w *waiting) awaitTrial(ctx context.Context, until time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, until.Add(enforceTime))
	defer cancel()
	for {
		var last trial.Report
		if err := w.call(ctx, w.environ, http.MethodGet, "trial", nil, &last); err != nil {
			return err
		}
		if last.Version == w.number && last.State != trial.Running {
			var now adminapi.Progress
			if err := w.call(ctx, w.environ, http.MethodGet, fmt.Sprintf("proposals/%d", w.number), nil, &now); err != nil {
				return err
			}
			if now.State == "pending" || now.State == "ready" {
				return nil
			}
			return failed("the trial of version %d is %s: %s; nothing changed", w.number, display.Text(last.State), display.Text(last.Detail))
		}
		if last.Version != w.number {
			return failed("the trial of version %d ended: version %d is on trial; nothing changed", w.number, last.Version)
		}
		if !delay.Wait(ctx, trialPoll) {
			return failed("version %d is still on trial; nothing changed", w.number)
		}
	}
}

// reportInForce prints that the version is in force, once the instances have changed.
func (w *waiting) reportInForce(ctx context.Context, now *adminapi.Progress) error {
	if now.At != nil {
		// The instances change at this time of Redis's clock, within half a second.
		delay.Wait(ctx, min(time.Until(*now.At), time.Second))
	}
	if w.format.value == "json" {
		return display.JSON(w.stdout, published{Version: w.number, Hash: w.hash, Ready: w.ready, InForceAt: now.At, Changes: w.changes})
	}
	fmt.Fprintf(w.stdout, "version %d is in force\n", w.number)
	return nil
}

// reportTrial prints that the version is on trial.
func (w *waiting) reportTrial(now *adminapi.Progress) error {
	if w.format.value == "json" {
		return display.JSON(w.stdout, published{Version: w.number, Hash: w.hash, Ready: w.ready, TrialUntil: now.At, Changes: w.changes})
	}
	fmt.Fprintf(w.stdout, "version %d is on trial until %s; koalagate trial prints what it would change\n", w.number, now.At.Format(time.RFC3339))
	return nil
}
