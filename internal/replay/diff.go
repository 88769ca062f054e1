package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/display"
	"github.com/koalagate/koalagate/internal/pace"
	"github.com/koalagate/koalagate/internal/sandbox"
	"github.com/koalagate/koalagate/internal/trace"
	"github.com/koalagate/koalagate/internal/whatif"
	"github.com/koalagate/koalagate/rules"
)

// DiffOptions configure Diff.
type DiffOptions struct {
	Old, New *rules.Set
	Traces   *trace.Files
	// Since is the time of the earliest calls to decide, in ms since the epoch. Earlier
	// ones are skipped; 0 skips none.
	Since int64
	// OnMasked receives each parameter whose value was masked although rules of
	// either set compare it; nil ignores them.
	OnMasked func(MaskedParam)
	// OnInexact is as in Options, for each rule set.
	OnInexact func(reason string)
	// Rules and Identities bound what is counted and returned, as in whatif.Tally. Without
	// Identities, Diff returns the ten of a rule with the most differences.
	Rules, Identities int
	// MaxRules is the service's max_rules; 0 means the maximum of the engine.
	MaxRules int
}

// Difference has the differences between the decisions of two rule sets about a trace.
type Difference struct {
	Calls int // of the trace
	// Skipped is the number of calls before DiffOptions.Since.
	Skipped int
	// From and To are the earliest and the latest time of a call, in ms since the epoch;
	// 0 without calls.
	From, To int64
	// Found are the differences, of parameter sets.
	whatif.Found
}

// Diff decides a trace by two rule sets, each with counters of its own, at the times
// that the trace names. The error names the first line that cannot be parsed or decided.
// If ctx ends, the error is ErrInterrupted, and the difference covers the calls up to then.
func Diff(ctx context.Context, o DiffOptions) (*Difference, error) {
	d := &differ{since: o.Since, tally: whatif.Tally{Rules: o.Rules, Identities: o.Identities}}
	var err error
	if d.old, err = openSide(ctx, o.Old, &o); err != nil {
		return nil, err
	}
	if d.new, err = openSide(ctx, o.New, &o); err != nil {
		return nil, errors.Join(err, d.old.counters.Close(ctx))
	}
	err = d.all(ctx, o.Traces)
	for _, s := range []*side{d.old, d.new} {
		if reason := s.counters.Inexact(); reason != "" && o.OnInexact != nil {
			o.OnInexact(reason)
		}
	}
	if err := errors.Join(err, d.old.counters.Close(ctx), d.new.counters.Close(ctx)); err != nil && !errors.Is(err, ErrInterrupted) {
		return nil, err
	}
	d.result.Found = d.tally.Found(cmp.Or(o.Identities, whatif.ShownIdentities))
	return &d.result, err
}

// differ compares two rule sets.
type differ struct {
	old, new *side
	since    int64
	result   Difference
	tally    whatif.Tally
}

// side is one of the two rule sets.
type side struct {
	set      *rules.Set
	counters *sandbox.Sandbox
	receipts *receipts
	masked   *maskedParams
	matches  rules.Matches
}

func openSide(ctx context.Context, set *rules.Set, o *DiffOptions) (*side, error) {
	counters, err := sandbox.Open(set, sandbox.Options{MaxRules: o.MaxRules})
	return &side{set: set, counters: counters, receipts: newReceipts(set), masked: newMaskedParams(ctx, set, o.OnMasked)}, err
}

func (d *differ) all(ctx context.Context, lines *trace.Files) error {
	for {
		line, err := lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case pace.Step(ctx) != nil: // a service may decide its own calls meanwhile
			return ErrInterrupted
		case line.T < d.since:
			d.result.Skipped++
			continue
		}
		err = d.step(ctx, line, lines.Place())
		switch {
		case err != nil && ctx.Err() != nil:
			return ErrInterrupted
		case err != nil:
			return fmt.Errorf("%s: %w", lines.Place(), err)
		}
	}
}

// step decides one line by both sets.
func (d *differ) step(ctx context.Context, line *trace.Line, place trace.Place) error {
	if d.result.Calls == 0 || line.T < d.result.From {
		d.result.From = line.T
	}
	d.result.To = max(d.result.To, line.T)
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
	if err := errors.Join(d.old.receipts.note(line, before), d.new.receipts.note(line, after)); err != nil {
		return err
	}
	if !call.Op.Decides() {
		return nil
	}
	for i := range before.Answers {
		was, is := whatif.Of(&before.Answers[i], i), whatif.Of(&after.Answers[i], i)
		d.tally.Add(was, is, func(refused whatif.Outcome) string {
			if is.Refused {
				return d.new.identity(call.Now, &call.Inputs[i], refused.Rule)
			}
			return d.old.identity(call.Now, &call.Inputs[i], refused.Rule)
		})
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

// identity returns the identity of a rule in an input that it refused at a time, in ms since
// the epoch, or "" if it counts none.
func (s *side) identity(now int64, in *engine.Input, by *rules.Rule) string {
	s.matches.Now = now
	s.set.Match(in.Params, &s.matches)
	for i := range s.matches.List {
		if m := &s.matches.List[i]; m.Rule == by {
			return display.Identity(shortened(m.Values()))
		}
	}
	return ""
}
