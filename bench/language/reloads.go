package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/koalagate/koalagate/bench/report"
	"github.com/koalagate/koalagate/bench/stats"
	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

const (
	callers = 4
	pace    = time.Millisecond // between two decisions of one caller
	span    = 2 * time.Second  // minimum duration of a turn
	every   = time.Second      // minimum time between two reloads
	// patience is the maximum time of a turn.
	patience = 2 * time.Minute
)

// reloads measures the latency of decisions with and without concurrent reloads. It
// starts at the time when a decision is due, so that it includes waiting for a
// processor.
func (r *run) reloads(ctx context.Context, s *report.Section) error {
	s.Text = fmt.Sprintf("%d callers make a decision each millisecond. A turn takes %v or more. The columns p50, p99\nand maximum show the median turn, in ms.", callers, span)
	s.Tables = []report.Table{{Columns: []string{"", "p50", "p99", "maximum", "reloads"}}}
	dir, err := os.MkdirTemp("", "koalagate-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, list := filepath.Join(dir, "rules.conf"), filepath.Join(dir, "list")
	many, few := kinds[0].ruleText(10_000), bytes.ReplaceAll(kinds[0].ruleText(10), []byte("uid=+"), []byte("uid @ list0"))

	reloader := reload.New(reload.Options{Files: reload.Files{Paths: []string{path}}, Logger: slog.New(slog.DiscardHandler)})
	if err := errors.Join(os.WriteFile(path, many, 0o600), os.WriteFile(list, []byte("1001\n"), 0o600)); err != nil {
		return err
	}
	set, findings, err := reloader.First()
	if err != nil || set == nil {
		return errors.Join(err, findings)
	}
	memory := memory.New(memory.Options{})
	defer memory.Close()
	e := engine.New(set, wiring.CountIn(memory))

	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { reloader.Run(ctx, e.Swap) })
	defer running.Wait()
	defer stop()

	ratio, err := compare(ctx, e, &s.Tables[0], "10,000 rules, each second", r.rounds, func(n int) error {
		return os.WriteFile(path, bytes.Replace(many, []byte("act=act9999;"), []byte("act=act"+strconv.Itoa(10_000+n)+";"), 1), 0o600)
	})
	if err != nil {
		return err
	}
	r.Figure("10,000 rules reload each second, p99 relative to none", &ratio)
	if err := errors.Join(os.WriteFile(path, few, 0o600), writeList(list+"0", 0, r.entries), writeList(list+"1", 1, r.entries)); err != nil {
		return err
	}
	ratio, err = compare(ctx, e, &s.Tables[0], fmt.Sprintf("a word list of %d integers, replaced each second if it is loaded", r.entries), r.others, func(n int) error {
		return errors.Join(os.Link(list+strconv.Itoa(n%2), list+"~"), os.Rename(list+"~", list))
	})
	r.Figure("a long word list is replaced all the time, p99 relative to none", &ratio)
	return err
}

// writeList writes a list of integers.
func writeList(path string, from, length int) error {
	f, err := os.Create(path) //nolint:gosec // the folder is temporary
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	for n := range length {
		fmt.Fprintln(w, 1_000_000_000+from+n)
	}
	return errors.Join(w.Flush(), f.Close())
}

// compare measures alternately with and without changes, because other load varies. It makes
// a change every second, if the previous one is active, and returns the ratio of p99 with
// changes to p99 without.
func compare(ctx context.Context, e *engine.Engine, t *report.Table, what string, rounds int, change func(n int) error) (ratio stats.Value, err error) {
	var without, with []latencies
	var calm, busy []float64
	number := 0
	for range rounds {
		none, err := load(ctx, e, func() error { return nil }, func() bool { return true })
		if err != nil {
			return ratio, err
		}
		var before *rules.Set
		active := func() bool { return e.Rules() != before }
		some, err := load(ctx, e, func() error {
			if !active() {
				return nil
			}
			before = e.Rules()
			number++
			return change(number)
		}, active)
		if err != nil {
			return ratio, fmt.Errorf("%s: %w", what, err)
		}
		without, with = append(without, none), append(with, some)
		calm, busy = append(calm, none.p99.Seconds()), append(busy, some.p99.Seconds())
	}
	for _, one := range []struct {
		name    string
		turns   []latencies
		reloads string
	}{{"without: " + what, without, ""}, {what, with, strconv.Itoa(number)}} {
		slices.SortFunc(one.turns, func(a, b latencies) int { return cmp.Compare(a.p99, b.p99) })
		middle := one.turns[len(one.turns)/2]
		t.Rows = append(t.Rows, []string{one.name, milliseconds(middle.p50), milliseconds(middle.p99), milliseconds(middle.max), one.reloads})
	}
	return stats.Ratios(busy, calm), nil
}

// latencies summarizes the latencies of one load.
type latencies struct {
	p50, p99, max time.Duration
}

// load runs callers for some time, calls disturb at once and at intervals, and continues until the
// last change is active.
func load(ctx context.Context, e *engine.Engine, disturb func() error, active func() bool) (latencies, error) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	took := make([][]time.Duration, callers)
	failed := make([]error, callers)
	var running sync.WaitGroup
	for n := range callers {
		running.Go(func() { took[n], failed[n] = call(ctx, e, n) })
	}
	disturbErr := runDisturbance(ctx, disturb, active)
	stop()
	running.Wait()
	all := slices.Concat(took...)
	slices.Sort(all)
	if disturbErr != nil {
		return latencies{}, disturbErr
	}
	if err := errors.Join(failed...); err != nil || len(all) == 0 {
		return latencies{}, errors.Join(errors.New("decisions are missing"), err)
	}
	return latencies{all[len(all)/2], all[len(all)*99/100], all[len(all)-1]}, nil
}

// runDisturbance calls disturb at once and at intervals for the duration of one load, and waits
// until the last change is active.
func runDisturbance(ctx context.Context, disturb func() error, active func() bool) error {
	interval := time.NewTicker(every)
	defer interval.Stop()
	for begin := time.Now(); ; {
		if time.Since(begin) < span {
			if err := disturb(); err != nil {
				return err
			}
		} else if active() {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no new rules became active in %v", patience)
		case <-interval.C:
		}
	}
}

// call makes decisions at a fixed pace until ctx is done.
func call(ctx context.Context, e *engine.Engine, n int) ([]time.Duration, error) {
	var took []time.Duration
	p := rules.MakeParams(map[string]string{"act": "act7", "uid": strconv.Itoa(n)})
	for due := time.Now(); ctx.Err() == nil; due = due.Add(pace) {
		time.Sleep(time.Until(due)) //nolint:forbidigo // the pace of a measurement
		if _, err := decide(context.WithoutCancel(ctx), e, p); err != nil {
			return nil, err
		}
		took = append(took, time.Since(due))
	}
	return took, nil
}
