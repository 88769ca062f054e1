package replay

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/sandbox"
	"github.com/koalagate/koalagate/internal/trace"
	"github.com/koalagate/koalagate/rules"
)

// DiffOptions configure Diff.
type DiffOptions struct {
	Old, New *rules.Set
	Traces   *trace.Files
	// OnMasked receives each parameter whose value was masked although rules of
	// either set compare it; nil ignores them.
	OnMasked func(MaskedParam)
}

// Difference is what two rule sets decide differently about a trace.
type Difference struct {
	Calls int // of the trace
	// NewlyRefused and NewlyAllowed are numbers of parameter sets that only the new
	// set refuses, and that only the old set refuses.
	NewlyRefused, NewlyAllowed int
	// RefusedIdentities and AllowedIdentities are the identities behind these numbers,
	// most first: of the rule that refuses, in the new and in the old set. Refused is
	// the number of parameter sets.
	RefusedIdentities, AllowedIdentities []IdentityTotals
}

// Diff decides a trace by two rule sets, each with counters of its own, at the times
// that the trace names. The error names the first line that cannot be parsed or decided.
func Diff(ctx context.Context, o DiffOptions) (*Difference, error) {
	d := &differ{refused: newTopIdentities(trackedIdentities), allowed: newTopIdentities(trackedIdentities)}
	var err error
	if d.old, err = openSide(o.Old, o.OnMasked); err != nil {
		return nil, err
	}
	if d.new, err = openSide(o.New, o.OnMasked); err != nil {
		return nil, errors.Join(err, d.old.counters.Close(ctx))
	}
	err = d.all(ctx, o.Traces)
	if err := errors.Join(err, d.old.counters.Close(ctx), d.new.counters.Close(ctx)); err != nil {
		return nil, err
	}
	d.result.RefusedIdentities = d.refused.top(trackedIdentities)
	d.result.AllowedIdentities = d.allowed.top(trackedIdentities)
	return &d.result, nil
}

// differ compares two rule sets.
type differ struct {
	old, new         *side
	result           Difference
	refused, allowed *topIdentities
}

// side is one of the two rule sets.
type side struct {
	set      *rules.Set
	counters *sandbox.Sandbox
	receipts receipts
	masked   *maskedParams
	matches  rules.Matches
}

func openSide(set *rules.Set, found func(MaskedParam)) (*side, error) {
	counters, err := sandbox.Open(set, sandbox.Options{})
	return &side{set: set, counters: counters, receipts: make(receipts), masked: newMaskedParams(set, found)}, err
}

func (d *differ) all(ctx context.Context, lines *trace.Files) error {
	for {
		line, err := lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ErrInterrupted
		}
		if err := d.step(ctx, line, lines.Place()); err != nil {
			return fmt.Errorf("%s: %w", lines.Place(), err)
		}
	}
}

// step decides one line by both sets.
func (d *differ) step(ctx context.Context, line *trace.Line, place trace.Place) error {
	d.result.Calls++
	if line.IsOnReceipt() {
		return d.end(ctx, line)
	}
	call := line.Call()
	d.old.masked.check(place, call)
	d.new.masked.check(place, call)
	before, err := d.old.counters.Decide(ctx, call)
	if err != nil {
		return fmt.Errorf("by the old rules: %w", err)
	}
	after, err := d.new.counters.Decide(ctx, line.Call())
	if err != nil {
		return fmt.Errorf("by the new rules: %w", err)
	}
	d.old.receipts.note(line, before)
	d.new.receipts.note(line, after)
	switch call.Op {
	case engine.Take, engine.Browse, engine.Complete, engine.CompleteTake:
	default:
		return nil // no verdict
	}
	for i := range before.Answers {
		was, is := &before.Answers[i], &after.Answers[i]
		switch {
		case was.Verdict == rules.Allow && is.Verdict != rules.Allow:
			d.result.NewlyRefused++
			d.new.count(d.refused, call.Now, &call.Inputs[i], is)
		case was.Verdict != rules.Allow && is.Verdict == rules.Allow:
			d.result.NewlyAllowed++
			d.old.count(d.allowed, call.Now, &call.Inputs[i], was)
		}
	}
	return nil
}

// end carries out a line about a receipt on both sides.
func (d *differ) end(ctx context.Context, line *trace.Line) error {
	if _, err := d.old.receipts.end(ctx, d.old.counters, line); err != nil {
		return fmt.Errorf("by the old rules: %w", err)
	}
	if _, err := d.new.receipts.end(ctx, d.new.counters, line); err != nil {
		return fmt.Errorf("by the new rules: %w", err)
	}
	return nil
}

// count counts the identity of the rule that refused an input at a time, in ms since the
// epoch.
func (s *side) count(to *topIdentities, now int64, in *engine.Input, a *engine.Answer) {
	decider := a.Decider
	if decider == nil && len(a.Refusing) > 0 {
		decider = a.Refusing[0]
	}
	s.matches.Now = now
	s.set.Match(in.Params, &s.matches)
	for i := range s.matches.List {
		if m := &s.matches.List[i]; m.Rule == decider {
			to.add(m, 1, true)
			return
		}
	}
}
