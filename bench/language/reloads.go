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

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

const (
	callers = 4
	pace    = time.Millisecond // between two decisions of one caller
	span    = 10 * time.Second // minimum duration of a turn
	every   = time.Second      // minimum time between two reloads
	turns   = 5
	// patience is the maximum time of a turn.
	patience = 2 * time.Minute
	// promised is the maximum ratio of p99 with reloads to p99 without.
	promised = 2
)

// reloads measures the latency of decisions with and without concurrent reloads. It
// starts at the time when a decision is due, so that it includes waiting for a
// processor.
func reloads(ctx context.Context, length int) ([]figure, error) {
	dir, err := os.MkdirTemp("", "koalagate-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path, list := filepath.Join(dir, "rules.conf"), filepath.Join(dir, "list")
	many, few := kinds[0].ruleText(10_000), bytes.ReplaceAll(kinds[0].ruleText(10), []byte("uid=+"), []byte("uid @ list0"))

	r := reload.New(reload.Options{Files: reload.Files{Paths: []string{path}}, Logger: slog.New(slog.DiscardHandler)})
	if err := errors.Join(os.WriteFile(path, many, 0o600), os.WriteFile(list, []byte("1001\n"), 0o600)); err != nil {
		return nil, err
	}
	set, findings, err := r.First()
	if err != nil || set == nil {
		return nil, errors.Join(err, findings)
	}
	memory := memory.New(memory.Options{})
	defer memory.Close()
	e := engine.New(set, wiring.CountIn(memory))

	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx, e.Swap) })
	defer running.Wait()
	defer stop()

	sets, err := compare(ctx, e, "reloads of 10,000 rules, one per second", promised, func(n int) error {
		return os.WriteFile(path, bytes.Replace(many, []byte("act=act9999;"), []byte("act=act"+strconv.Itoa(10_000+n)+";"), 1), 0o600)
	})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.WriteFile(path, few, 0o600), writeList(list+"0", 0, length), writeList(list+"1", 1, length)); err != nil {
		return nil, err
	}
	lists, err := compare(ctx, e, fmt.Sprintf("a word list of %d integers that is replaced as soon as it is loaded", length), 0, func(n int) error {
		return errors.Join(os.Link(list+strconv.Itoa(n%2), list+"~"), os.Rename(list+"~", list))
	})
	return append(sets, lists...), err
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

// compare measures alternately with and without changes, because other load varies,
// and uses the median pair. It makes a change every second, if the previous one is
// active. The goal for the ratio of p99 is bound, or none if bound is 0.
func compare(ctx context.Context, e *engine.Engine, what string, bound float64, change func(n int) error) ([]figure, error) {
	var pairs []pair
	number := 0
	for range turns {
		var p pair
		var err error
		if p.calm, err = load(ctx, e, func() error { return nil }, func() bool { return true }); err != nil {
			return nil, err
		}
		var before *rules.Set
		active := func() bool { return e.Rules() != before }
		made := number
		if p.busy, err = load(ctx, e, func() error {
			if !active() {
				return nil
			}
			before = e.Rules()
			number++
			return change(number)
		}, active); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		p.changes = number - made
		pairs = append(pairs, p)
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Compare(a.ratio(), b.ratio()) })
	middle, goal := pairs[turns/2], ""
	if bound > 0 {
		goal = fmt.Sprintf("≤ %g times", bound)
	}
	return []figure{
		{"without " + what, middle.calm.String(), "", true},
		{"with " + what, fmt.Sprintf("%v, %d reloads", middle.busy, middle.changes), "", true},
		{
			"p99 with against without",
			fmt.Sprintf("%.2f times; in %d turns from %.2f to %.2f", middle.ratio(), turns, pairs[0].ratio(), pairs[turns-1].ratio()),
			goal, bound == 0 || middle.ratio() <= bound,
		},
	}, nil
}

// pair is a load without reloads and one with reloads.
type pair struct {
	calm, busy latencies
	changes    int
}

func (p pair) ratio() float64 { return float64(p.busy.p99) / float64(p.calm.p99) }

// latencies summarizes the latencies of one load.
type latencies struct {
	number        int
	p50, p99, max time.Duration
}

// String returns the latencies as text.
func (l latencies) String() string {
	return fmt.Sprintf("p50 %v, p99 %v, maximum %v of %d decisions", l.p50.Round(time.Microsecond), l.p99.Round(time.Microsecond), l.max.Round(time.Microsecond), l.number)
}

// load runs callers for some time, calls disturb at intervals, and continues until the
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
	return latencies{len(all), all[len(all)/2], all[len(all)*99/100], all[len(all)-1]}, nil
}

// runDisturbance calls disturb at intervals for the duration of one load, and waits
// until the last change is active.
func runDisturbance(ctx context.Context, disturb func() error, active func() bool) error {
	interval := time.NewTicker(every)
	defer interval.Stop()
	for begin := time.Now(); ; {
		select {
		case <-ctx.Done():
			return fmt.Errorf("no new rules became active in %v", patience)
		case <-interval.C:
		}
		if time.Since(begin) < span {
			if err := disturb(); err != nil {
				return err
			}
		} else if active() {
			return nil
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
