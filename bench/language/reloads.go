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
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

const (
	callers = 4
	pace    = time.Millisecond // between two decisions of one caller
	span    = 10 * time.Second // of a turn, which is longer if what it loads is
	every   = time.Second      // between two reloads at least
	turns   = 5
	// patience is how long a turn waits for what it loads.
	patience = 2 * time.Minute
	// promised is the ratio of p99 with reloads of rules to that without.
	promised = 2
)

// reloads measures how long decisions take while rules are read again, and
// while they are not. A decision's time is counted from the instant that it is
// due at, so that waiting for a processor is counted, too.
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
	memory := store.NewMemory(store.MemoryOptions{})
	defer memory.Close()
	e := engine.New(set, wiring.CountIn(memory))

	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx, e.Swap) })
	defer running.Wait()
	defer stop()

	sets, err := compare(ctx, e, "reloads of 10,000 rules, one a second", promised, func(n int) error {
		return os.WriteFile(path, bytes.Replace(many, []byte("act=act9999;"), []byte("act=act"+strconv.Itoa(10_000+n)+";"), 1), 0o600)
	})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.WriteFile(path, few, 0o600), writeList(list+"0", 0, length), writeList(list+"1", 1, length)); err != nil {
		return nil, err
	}
	lists, err := compare(ctx, e, fmt.Sprintf("a word list of %d integers that is replaced as soon as it has loaded", length), 0, func(n int) error {
		return errors.Join(os.Link(list+strconv.Itoa(n%2), list+"~"), os.Rename(list+"~", list))
	})
	return append(sets, lists...), err
}

// writeList writes a list of integers.
func writeList(path string, from, length int) error {
	f, err := os.Create(path) //nolint:gosec // in a folder of our own
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	for n := range length {
		fmt.Fprintln(w, 1_000_000_000+from+n)
	}
	return errors.Join(w.Flush(), f.Close())
}

// compare measures with and without changes, in turn, since neighbours come and
// go; the pair in the middle counts. A change is made every second, if the one
// before it is in force. Of the ratio of p99, bound is promised; nothing if it is 0.
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
		inForce := func() bool { return e.Rules() != before }
		made := number
		if p.busy, err = load(ctx, e, func() error {
			if !inForce() {
				return nil
			}
			before = e.Rules()
			number++
			return change(number)
		}, inForce); err != nil {
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

// pair is a load without reloads, and one with them.
type pair struct {
	calm, busy latencies
	changes    int
}

func (p pair) ratio() float64 { return float64(p.busy.p99) / float64(p.calm.p99) }

// latencies are those of one load.
type latencies struct {
	number         int
	p50, p99, most time.Duration
}

// String is the latencies in words.
func (l latencies) String() string {
	return fmt.Sprintf("p50 %v, p99 %v, the slowest %v of %d decisions", l.p50.Round(time.Microsecond), l.p99.Round(time.Microsecond), l.most.Round(time.Microsecond), l.number)
}

// load lets callers decide for some time, while disturb is called at intervals,
// and from then on until what it did is in force.
func load(ctx context.Context, e *engine.Engine, disturb func() error, inForce func() bool) (latencies, error) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	took := make([][]time.Duration, callers)
	failed := make([]error, callers)
	var running sync.WaitGroup
	for n := range callers {
		running.Go(func() { took[n], failed[n] = call(ctx, e, n) })
	}
	fault := disturbed(ctx, disturb, inForce)
	stop()
	running.Wait()
	all := slices.Concat(took...)
	slices.Sort(all)
	if fault != nil {
		return latencies{}, fault
	}
	if err := errors.Join(failed...); err != nil || len(all) == 0 {
		return latencies{}, errors.Join(errors.New("no decisions, or not all"), err)
	}
	return latencies{len(all), all[len(all)/2], all[len(all)*99/100], all[len(all)-1]}, nil
}

// disturbed is the time of one load: it calls disturb, and waits.
func disturbed(ctx context.Context, disturb func() error, inForce func() bool) error {
	interval := time.NewTicker(every)
	defer interval.Stop()
	for begin := time.Now(); ; {
		select {
		case <-ctx.Done():
			return fmt.Errorf("no new rules came into force in %v", patience)
		case <-interval.C:
		}
		if time.Since(begin) < span {
			if err := disturb(); err != nil {
				return err
			}
		} else if inForce() {
			return nil
		}
	}
}

// call decides at its pace until ctx is done.
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
