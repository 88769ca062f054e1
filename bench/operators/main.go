// Command operators measures what decisions notice of operators: the latency of paced checks
// at an instance with one processor while each path of the admin API gets its largest and
// worst input, next to a calm instance.
//
//	go run ./bench/operators [-o docs/bench-operators.md] [-span DURATION]
//
// All programs listen on loopback, share the machine, and stop with this one.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/koalagate/koalagate/bench/origin"
	"github.com/koalagate/koalagate/bench/single"
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
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *output, *span)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/operators:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, output string, span time.Duration) error {
	k, err := single.Start(manyRules(), true, "GOMAXPROCS=1")
	if err != nil {
		return err
	}
	defer k.Close()
	busy := origin.Load()
	var rows strings.Builder
	if _, err := measure(ctx, k.Koalagate, nil, span); err != nil { // warms up
		return err
	}
	for _, q := range e2e.AdminQuestions() {
		calm, err := measure(ctx, k.Koalagate, nil, span)
		if err != nil {
			return err
		}
		asked, err := measure(ctx, k.Koalagate, &q, span)
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
one path ([bounds.md](bounds.md)). All programs share the machine. The load average was %s
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

// manyRules returns rules of which one applies to the checks.
func manyRules() string {
	var text strings.Builder
	text.WriteString("[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10}\n[rules]\nrule : [count] [uid=+] [time=60; count=1000000000] [result=2; return=1]\n")
	for i := 2; i < many; i++ {
		fmt.Fprintf(&text, "rule : [count] [uid=+; kind=%d] [time=3600; count=9] [result=2; return=%d]\n", i, i)
	}
	return text.String()
}

// measure returns the median and the 99th percentile of checks while askers repeat a
// question, nil for none.
func measure(ctx context.Context, k *e2e.Koalagate, q *e2e.AdminQuestion, span time.Duration) (quantiles [2]time.Duration, err error) {
	asking, leave := context.WithCancel(ctx)
	var callers sync.WaitGroup
	defer callers.Wait()
	defer leave()
	if q != nil {
		for range askers {
			callers.Go(func() {
				for asking.Err() == nil {
					_, _ = k.Ask(asking, q) // a refused caller asks again
				}
			})
		}
	}
	var took []time.Duration
	client := &http.Client{Timeout: maxWait}
	for begin, due := time.Now(), time.Now(); time.Since(begin) < span; due = due.Add(pace) {
		time.Sleep(time.Until(due)) //nolint:forbidigo // the pace of a measurement
		if err := check(ctx, client, k); err != nil {
			return quantiles, err
		}
		took = append(took, time.Since(due)) // a slow answer delays those behind it
	}
	slices.Sort(took)
	return [2]time.Duration{took[len(took)/2], took[len(took)*99/100]}, nil
}

func check(ctx context.Context, client *http.Client, k *e2e.Koalagate) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+k.HTTP+"/v1/auth-request?uid=ann", http.NoBody)
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
