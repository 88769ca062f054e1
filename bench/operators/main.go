// Command operators measures what decisions notice of operators: the latency of checks
// at an instance with one processor while each path of the admin API gets its largest and
// worst input, next to a calm instance. `make bench` runs it, too.
//
//	go run ./bench/operators [-short] [-only REGEXP] [-rounds N] [-span DURATION]
//
// All programs listen on loopback, share the machine, and stop with this one.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/koalagate/koalagate/bench/process"
	"github.com/koalagate/koalagate/bench/report"
	"github.com/koalagate/koalagate/bench/stage"
	"github.com/koalagate/koalagate/bench/stats"
	"github.com/koalagate/koalagate/e2e"
)

const (
	many    = 10_000 // rules
	rate    = 1000   // checks a second, at random times as of many independent callers
	callers = 64     // checks at a time, at most
	askers  = 3      // that ask the same at a time
	maxWait = 10 * time.Second

	neighbors = 5 // questions that follow a calm turn, with which each is compared
)

func main() {
	options := report.Flags()
	span := flag.Duration("span", 400*time.Millisecond, "the duration of a turn")
	rounds := flag.Int("rounds", 4, "the number of turns with and without each question")
	name := flag.String("ask", "", "only repeat the question with this name, which the instance of -state gets")
	state := flag.String("state", "", "the instance to ask, as JSON")
	flag.Parse()
	if options.Short {
		*rounds, *span = 1, 200*time.Millisecond
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if *state != "" {
		err = ask(ctx, *state, *name)
	} else {
		err = run(ctx, options, *rounds, *span)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/operators:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, options *report.Options, rounds int, span time.Duration) (err error) {
	chosen, err := options.Chosen()
	if err != nil {
		return err
	}
	s, err := stage.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	k, err := s.Operated(ctx, s.Binary, s.Dir, s.Redis, "rule : [count] [uid=+] [time=60; count=1000000000]", many)
	if err != nil {
		return err
	}
	p := options.Begin()
	p.Chapter("Questions of operators", fmt.Sprintf(`Callers of %s make %d checks a second, at random times, at an instance with GOMAXPROCS=1,
%d rules and counters in Redis, while %d callers of the admin API repeat the largest and worst input of
one path ([bounds.md](../bounds.md)). All programs share the machine; operators run at a lower
priority. A turn without these callers
precedes turns of five questions, in %d rounds. Turns take %v.`, "`/v1/auth-request`", rate, many, askers, rounds, span))
	if _, err := measure(ctx, k, nil, span); err != nil { // warms up
		return err
	}
	questions := slices.DeleteFunc(k.Questions(), func(q e2e.AdminQuestion) bool { return !chosen.MatchString(q.Name) })
	calm, asked := make([]latencies, len(questions)), make([]latencies, len(questions))
	for range rounds {
		var before [2]time.Duration
		for i := range questions {
			if i%neighbors == 0 {
				if before, err = measure(ctx, k, nil, span); err != nil {
					return err
				}
			}
			got, err := measure(ctx, k, &questions[i], span)
			if err != nil {
				return fmt.Errorf("%s: %w", questions[i].Name, err)
			}
			calm[i].add(before)
			asked[i].add(got)
		}
	}
	t := report.Table{Columns: []string{"question", "calm p50", "calm p99", "asked p50", "asked p99", "p99 relative to calm"}}
	var most *stats.Value
	for i := range questions {
		ratio := stats.Ratios(asked[i].p99, calm[i].p99)
		if most == nil || ratio.Median > most.Median {
			most = &ratio
		}
		t.Rows = append(t.Rows, slices.Concat([]string{fmt.Sprintf("%.34s", questions[i].Name)}, calm[i].medians(), asked[i].medians(), []string{ratio.String()}))
	}
	p.Add(report.Section{Name: "Decisions while operators ask", Text: "Latencies in ms, medians of the turns.", Tables: []report.Table{t}})
	p.Figure("an operator's question, p99 of decisions relative to none, question with the largest ratio", most)
	return options.End(p)
}

// latencies are the median and the 99th percentile of each turn, in ms.
type latencies struct{ p50, p99 []float64 }

func (l *latencies) add(quantiles [2]time.Duration) {
	l.p50 = append(l.p50, ms(quantiles[0]))
	l.p99 = append(l.p99, ms(quantiles[1]))
}

func (l *latencies) medians() []string {
	return []string{fmt.Sprintf("%.2f", stats.Of(l.p50).Median), fmt.Sprintf("%.2f", stats.Of(l.p99).Median)}
}

// ask repeats a question by several callers until ctx ends.
func ask(ctx context.Context, state, name string) error {
	k := new(e2e.Operated)
	if err := json.Unmarshal([]byte(state), k); err != nil {
		return err
	}
	if err := process.LowerPriority(); err != nil {
		return err
	}
	var callers sync.WaitGroup
	for _, q := range k.Questions() {
		for range askers {
			if q.Name == name {
				callers.Go(func() {
					for ctx.Err() == nil {
						_, _ = k.Ask(ctx, &q) // a refused caller asks again
					}
				})
			}
		}
	}
	callers.Wait()
	return nil
}

// measure returns the median and the 99th percentile of checks while another process repeats a
// question, nil for none.
func measure(ctx context.Context, k *e2e.Operated, q *e2e.AdminQuestion, span time.Duration) (quantiles [2]time.Duration, err error) {
	if q != nil {
		own, err := os.Executable()
		if err != nil {
			return quantiles, err
		}
		state, err := json.Marshal(k)
		if err != nil {
			return quantiles, err
		}
		operators := exec.CommandContext(ctx, own, "-ask", q.Name, "-state", string(state)) //nolint:gosec // this program
		operators.Stderr = os.Stderr
		if err := operators.Start(); err != nil {
			return quantiles, err
		}
		defer func() {
			_ = operators.Process.Signal(syscall.SIGTERM)
			_ = operators.Wait() // ended by the signal
		}()
		time.Sleep(span / 4) //nolint:forbidigo // the operators begin
	}
	took, err := checks(ctx, k.HTTP, span)
	if err != nil {
		return quantiles, err
	}
	slices.Sort(took)
	return [2]time.Duration{took[len(took)/2], took[len(took)*99/100]}, nil
}

// checks makes checks for span and returns how long after its time each was answered: one that
// begins late, since others have not been answered, has waited.
func checks(ctx context.Context, address string, span time.Duration) (took []time.Duration, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	client := &http.Client{Timeout: maxWait, Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	defer client.CloseIdleConnections()
	due, answered := make(chan time.Time, callers), make(chan time.Duration, callers)
	var running sync.WaitGroup
	for range callers {
		running.Go(func() {
			for at := range due {
				if err := check(ctx, client, address); err != nil {
					stop(err)
				}
				answered <- time.Since(at)
			}
		})
	}
	go func() {
		defer func() { close(due); running.Wait(); close(answered) }()
		times := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // the same times in each turn
		for begin, at := time.Now(), time.Now(); at.Sub(begin) < span && ctx.Err() == nil; at = at.Add(time.Duration(times.ExpFloat64() * float64(time.Second) / rate)) {
			time.Sleep(time.Until(at)) //nolint:forbidigo // the rate of a measurement
			due <- at
		}
	}()
	for one := range answered {
		took = append(took, one)
	}
	return took, context.Cause(ctx)
}

func check(ctx context.Context, client *http.Client, address string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/v1/auth-request?uid=ann", http.NoBody)
	if err != nil {
		return err
	}
	r.Header = http.Header{"X-Original-Method": {"GET"}, "X-Original-Uri": {"/"}, "X-Real-Ip": {"198.51.100.7"}, "X-Forwarded-Host": {"shop.example"}, "X-Forwarded-Proto": {"https"}}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("a check: %s; want 200", answer.Status)
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
