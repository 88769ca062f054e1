package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/koalagate/koalagate/bench/report"
	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

// form is a form of threshold, compared with a rule of the same method in seconds.
type form struct {
	name, rule, than string
}

const (
	plainCount  = "[count] [uid=+] [time=60; count=1000000000]"
	plainBucket = "[token] [uid=+] [time=60; count=1000000; burst=1000000]"
)

var forms = []form{
	{"a window of a calendar minute", "[count] [uid=+] [time=minute; count=1000000000]", plainCount},
	{"a window of a calendar month", "[count] [uid=+] [time=month; from=15; count=1000000000]", plainCount},
	{"a limit from a parameter", "[count] [uid=+] [time=60; count=param limit else 5]", plainCount},
	{"a limit from a table of 1000 rows", "[count] [uid=+] [time=60; count=table plans.rate by uid else 5]", plainCount},
	{"a budget with overdraft", "[count] [uid=+] [time=60; count=1000000000; overdraft=1]", plainCount},
	{"a limit with a ban", "[count] [uid=+] [time=60; count=1000000000; ban=60]", plainCount},
	{"a bucket with a queue", "[token] [uid=+] [time=60; count=1000000; burst=1000000; wait=1]", plainBucket},
}

// forms compares the forms of thresholds.
func (r *run) forms(ctx context.Context, s *report.Section) error {
	s.Text = "A decision in process by one rule, relative to one of the same method with `time=60` and a\nnumber as its limit. Times are ns of the fastest turn."
	table := report.Table{Columns: []string{"form", "ratio", "of this form", "of the other rule"}}
	for _, f := range forms {
		than, err := newRunner(ctx, f.than)
		if err != nil {
			return err
		}
		other, err := newRunner(ctx, f.rule)
		if err != nil {
			return err
		}
		took, ratio := r.race(than.decide, other.decide)
		than.memory.Close()
		other.memory.Close()
		if err := errors.Join(than.failed, other.failed); err != nil {
			return err
		}
		table.Rows = append(table.Rows, []string{f.name, ratio.String(), ns(took[1]), ns(took[0])})
		r.Figure(f.name+", time of a decision relative to a window in seconds", &ratio)
	}
	s.Tables = []report.Table{table}
	return nil
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
func (r *run) queue(ctx context.Context, s *report.Section) error {
	const requests, apart = 100, 20 * time.Millisecond
	q, err := newRunner(ctx, "[token] [uid=+] [time=1; count=50; burst=1; wait=10]")
	if err != nil {
		return err
	}
	defer q.memory.Close()
	turns, late := make([]time.Time, requests), make([]time.Duration, requests)
	failed := make([]error, requests)
	var running sync.WaitGroup
	for i := range requests {
		running.Go(func() {
			d, err := q.engine.Decide(ctx, &engine.Call{Op: engine.Take, Inputs: []engine.Input{{Params: q.params}}, Patience: engine.MaxWait})
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
		return err
	}
	slices.SortFunc(turns, time.Time.Compare)
	slices.Sort(late)
	var off time.Duration
	for i := 1; i < requests; i++ {
		off = max(off, (turns[i].Sub(turns[i-1]) - apart).Abs())
	}
	s.Text = fmt.Sprintf("%d requests wait for turns that are %v apart.", requests, apart)
	s.Tables = []report.Table{{Columns: []string{"", "ms"}, Rows: [][]string{
		{"a decision after its turn, median", milliseconds(late[requests/2])},
		{"the earliest decision after its turn", milliseconds(late[0])},
		{"the latest decision after its turn", milliseconds(late[requests-1])},
	}}}
	r.FigureIn(" ms", "a queue in process, largest deviation of a turn", once(1000*off.Seconds()))
	r.FigureIn(" ms", "a queue in process, a decision before its turn", once(1000*max(-late[0], 0).Seconds()))
	return nil
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.2f", 1000*d.Seconds()) }
