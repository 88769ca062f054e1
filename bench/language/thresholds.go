package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

// form is a form of threshold, compared with a rule of the same method in seconds.
type form struct {
	name, rule, than string
	most             float64 // the goal for the ratio; 0 for none
}

const (
	plainCount  = "[count] [uid=+] [time=60; count=1000000000]"
	plainBucket = "[token] [uid=+] [time=60; count=1000000; burst=1000000]"
)

var forms = []form{
	{"a window of a calendar minute", "[count] [uid=+] [time=minute; count=1000000000]", plainCount, 1.05},
	{"a window of a calendar month", "[count] [uid=+] [time=month; from=15; count=1000000000]", plainCount, 1.05},
	{"a limit from a parameter", "[count] [uid=+] [time=60; count=param limit else 5]", plainCount, 0},
	{"a limit from a table of 1000 rows", "[count] [uid=+] [time=60; count=table plans.rate by uid else 5]", plainCount, 0},
	{"a budget with overdraft", "[count] [uid=+] [time=60; count=1000000000; overdraft=1]", plainCount, 0},
	{"a limit with a ban", "[count] [uid=+] [time=60; count=1000000000; ban=60]", plainCount, 0},
	{"a bucket with a queue", "[token] [uid=+] [time=60; count=1000000; burst=1000000; wait=1]", plainBucket, 0},
}

// thresholds compares the forms of thresholds, and measures the turns of a queue.
func thresholds(ctx context.Context) ([]figure, error) {
	var figures []figure
	for _, f := range forms {
		than, err := newRunner(ctx, f.than)
		if err != nil {
			return nil, err
		}
		r, err := newRunner(ctx, f.rule)
		if err != nil {
			return nil, err
		}
		took, ratio := race(than.decide, r.decide)
		than.memory.Close()
		r.memory.Close()
		if err := errors.Join(than.failed, r.failed); err != nil {
			return nil, err
		}
		goal := ""
		if f.most > 0 {
			goal = fmt.Sprintf("≤ %.2f times", f.most)
		}
		figures = append(figures, figure{
			what: f.name,
			got:  fmt.Sprintf("%.2f times a decision in seconds: %.0f ns and %.0f ns", ratio, took[1], took[0]),
			goal: goal, met: f.most == 0 || ratio <= f.most,
		})
	}
	turns, err := queue(ctx)
	return append(figures, turns...), err
}

// newRunner returns a runner of one rule, which is admitted.
func newRunner(ctx context.Context, rule string) (*runner, error) {
	set, err := parse([]byte("[settings]\ntimezone : Europe/Berlin\n[tables]\nplans : plans.csv\n[rules]\nrule : " + rule + " [result=2; return=1]\n" + entries))
	if err != nil {
		return nil, err
	}
	r := &runner{
		ctx: ctx, set: set, memory: memory.New(memory.Options{}),
		params: rules.MakeParams(map[string]string{"door": "extauthz", "method": "GET", "path": "/", "uid": "1001", "limit": "1000000000"}),
	}
	r.engine = engine.New(set, wiring.CountIn(r.memory))
	if d, err := decide(ctx, r.engine, r.params); err != nil || !d.Allowed() || !d.Answers[0].Limited {
		return nil, fmt.Errorf("%s: %+v, %w; want a hit admitted", rule, d, err)
	}
	return r, nil
}

// plans returns a table of 1000 users with a limit.
func plans(_, path string) (*rules.Table, error) {
	var b strings.Builder
	b.WriteString("user,rate\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "%d,1000000000\n", i+500)
	}
	return rules.ParseTable(path, strings.NewReader(b.String()))
}

// queue lets requests wait for turns at the same time.
func queue(ctx context.Context) ([]figure, error) {
	const requests, apart = 100, 20 * time.Millisecond
	r, err := newRunner(ctx, "[token] [uid=+] [time=1; count=50; burst=1; wait=10]")
	if err != nil {
		return nil, err
	}
	defer r.memory.Close()
	turns, late := make([]time.Time, requests), make([]time.Duration, requests)
	failed := make([]error, requests)
	var running sync.WaitGroup
	for i := range requests {
		running.Go(func() {
			d, err := r.engine.Decide(ctx, &engine.Call{Op: engine.Take, Inputs: []engine.Input{{Params: r.params}}, Patience: engine.MaxWait})
			if err != nil || !d.Allowed() {
				failed[i] = fmt.Errorf("a request in the queue: %+v, %w", d, err)
				return
			}
			turn := time.UnixMilli(d.At).Add(d.Wait) // by the clock of the store
			turns[i], late[i] = turn, time.Since(turn)
		})
	}
	running.Wait()
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	slices.SortFunc(turns, time.Time.Compare)
	slices.Sort(late)
	var off time.Duration
	for i := 1; i < requests; i++ {
		off = max(off, (turns[i].Sub(turns[i-1]) - apart).Abs())
	}
	return []figure{
		{"a queue of 50 per second: distance of turns", fmt.Sprintf("%v, at most %v off", apart, off), "at most 1ms off", off <= time.Millisecond},
		{"the same: decisions after their turns", fmt.Sprintf("%v in the median, %v to %v", late[requests/2], late[0], late[requests-1]), "none more than 1ms before", late[0] >= -time.Millisecond},
	}, nil
}
