// Command operators measures what decisions notice of operators: the latency of paced checks
// at an instance with one processor while each path of the admin API gets its largest and
// worst input, next to a calm instance.
//
//	go run ./bench/operators [-o docs/reports/bench-operators.md] [-span DURATION]
//
// All programs listen on loopback, share the machine, and stop with this one.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/koalagate/koalagate/bench/origin"
	"github.com/koalagate/koalagate/bench/process"
	"github.com/koalagate/koalagate/bench/stage"
	"github.com/koalagate/koalagate/e2e"
)

const (
	many    = 10_000               // rules
	pace    = 5 * time.Millisecond // between two checks
	askers  = 3                    // that ask the same at a time
	goal    = 1.5                  // times of the calm 99th percentile
	maxWait = 10 * time.Second
)

func main() {
	output := flag.String("o", "", "write the report to this `FILE`")
	span := flag.Duration("span", 5*time.Second, "the duration of each measurement")
	only := flag.String("only", "", "a regular expression for the names of questions")
	name := flag.String("ask", "", "only repeat the question with this name, which the instance of -state gets")
	state := flag.String("state", "", "the instance to ask, as JSON")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if *state != "" {
		err = ask(ctx, *state, *name)
	} else {
		err = run(ctx, *output, *only, *span)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/operators:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, output, only string, span time.Duration) (err error) {
	chosen, err := regexp.Compile(only)
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
	busy := origin.Load()
	var rows strings.Builder
	if _, err := measure(ctx, k, nil, span); err != nil { // warms up
		return err
	}
	for _, q := range k.Questions() {
		if !chosen.MatchString(q.Name) {
			continue
		}
		calm, err := measure(ctx, k, nil, span)
		if err != nil {
			return err
		}
		asked, err := measure(ctx, k, &q, span)
		if err != nil {
			return fmt.Errorf("%s: %w", q.Name, err)
		}
		verdict, ratio := "met", float64(asked[1])/float64(calm[1])
		if ratio > goal {
			verdict = "**missed**"
		}
		fmt.Fprintf(&rows, "| %.34s | %.2f | %.2f | %.2f | %.2f | %.2f | %s |\n", q.Name, ms(calm[0]), ms(calm[1]), ms(asked[0]), ms(asked[1]), ratio, verdict)
	}
	text := fmt.Sprintf(`# What decisions notice of operators

Written by %s at commit %s, %s, %s, %s/%s, %d × %s.

One caller of %s makes a check every %v at an instance with GOMAXPROCS=1, %d rules and
counters in Redis, while %d callers of the admin API repeat the largest and worst input of
one path ([bounds.md](../bounds.md)). All programs share the machine; operators run at a lower
priority. The load average was %s
before the run: above 1 there was other load, and times are not reliable. Each line has %v
without and %v with these callers. The goal is a 99th percentile within %g times of the calm one.

| question | calm p50 ms | p99 | asked p50 ms | p99 | times | |
| --- | --- | --- | --- | --- | --- | --- |
%s`, "`go run ./bench/operators`", origin.Commit(ctx, "*.go", "*.lua", "go.mod"), time.Now().UTC().Format(time.DateOnly), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), origin.Processor(),
		"`/v1/auth-request`", pace, many, askers, busy, span, span, goal, rows.String())
	fmt.Print(text)
	if output == "" {
		return nil
	}
	return os.WriteFile(output, []byte(text), 0o644) //nolint:gosec // a public report
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
	var took []time.Duration
	client := &http.Client{Timeout: maxWait}
	for begin, due := time.Now(), time.Now(); time.Since(begin) < span; due = due.Add(pace) {
		time.Sleep(time.Until(due)) //nolint:forbidigo // the pace of a measurement
		if err := check(ctx, client, k.HTTP); err != nil {
			return quantiles, err
		}
		took = append(took, time.Since(due)) // a slow answer delays those behind it
	}
	slices.Sort(took)
	return [2]time.Duration{took[len(took)/2], took[len(took)*99/100]}, nil
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
