package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/koalagate/koalagate/internal/adminapi"
	"github.com/koalagate/koalagate/internal/delay"
	"github.com/koalagate/koalagate/internal/display"
)

// published is the document of a publish.
type published struct {
	Version   uint64     `json:"version"`
	Hash      string     `json:"hash"`
	Ready     int        `json:"ready"` // instances
	InForceAt *time.Time `json:"in_force_at,omitempty"`
	// TrialUntil is the planned end of the trial.
	TrialUntil *time.Time `json:"trial_until,omitempty"`
}

// pollInterval is the time between two questions about a proposed version.
const pollInterval = 100 * time.Millisecond

// await waits until a proposed version is in force or on trial, or refused.
func (p *program) await(ctx context.Context, b *publishing, number uint64, hash string) error {
	ctx, cancel := context.WithTimeout(ctx, b.wait+b.timeout)
	defer cancel()
	ready := 0
	for {
		var now adminapi.Progress
		if err := b.call(ctx, p.environ, http.MethodGet, fmt.Sprintf("proposals/%d", number), nil, &now); err != nil {
			return err
		}
		switch now.State {
		case "pending":
			ready = max(ready, len(now.Ready))
		case "in_force":
			if now.At != nil {
				// The instances change at this time of Redis's clock, within half a second.
				delay.Wait(ctx, min(time.Until(*now.At), time.Second))
			}
			if b.format.value == "json" {
				return display.JSON(p.stdout, published{Version: number, Hash: hash, Ready: ready, InForceAt: now.At})
			}
			fmt.Fprintf(p.stdout, "version %d is in force\n", number)
			return nil
		case "trial":
			if b.format.value == "json" {
				return display.JSON(p.stdout, published{Version: number, Hash: hash, Ready: ready, TrialUntil: now.At})
			}
			fmt.Fprintf(p.stdout, "version %d is on trial until %s; koalagate trial prints what it would change\n", number, now.At.Format(time.RFC3339))
			return nil
		case "conflict":
			return conflict{fmt.Errorf("version %d: %s; nothing changed", number, display.Text(now.Detail))}
		default:
			return failed("version %d is %s; nothing changed\n%s", number, display.Text(now.State), display.Text(now.Detail))
		}
		if !delay.Wait(ctx, pollInterval) {
			return failed("version %d: no answer in time; it lapses at its deadline", number)
		}
	}
}
