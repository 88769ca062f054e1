// Command scale measures how far instances with one Redis go, and with a Redis Cluster of
// three nodes: decisions per second of 1, 2, 4 and 8 instances, and what a decision costs
// Redis, with and without leases. It writes a report.
//
//	go run ./bench/scale [-o docs/reports/bench-scale.md] [-short] [-only REGEXP]
//
// An instance is a process with a koalagate.Gate and 32 callers, so that no gateway and no
// gRPC takes the processors that Redis needs. All programs listen on loopback, and stop
// with this one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"
)

// options contains the command line.
type options struct {
	output, only string
	rounds       int
	span         time.Duration
}

func main() {
	var o options
	redis := flag.String("instance", "", "only be an instance with the Redis at this `URL`")
	rules := flag.String("rules", "", "the rule file of the instance")
	short := flag.Bool("short", false, "measure briefly and roughly, for development")
	flag.StringVar(&o.output, "o", "", "write the report to this `FILE`")
	flag.StringVar(&o.only, "only", "", "a regular expression for names such as `one Redis, hot, 4`")
	flag.IntVar(&o.rounds, "rounds", 3, "the number of turns of each measurement")
	flag.DurationVar(&o.span, "span", 1500*time.Millisecond, "the duration of a turn")
	flag.Parse()
	if *short {
		o.rounds, o.span = 1, 500*time.Millisecond
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if *redis != "" {
		err = serve(ctx, *redis, *rules)
	} else {
		err = o.run(ctx)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/scale:", err)
		os.Exit(1)
	}
}

// run measures everything and writes the report.
func (o *options) run(ctx context.Context) error {
	only, err := regexp.Compile(o.only)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "koalagate-scale-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := newScene(dir)
	if err != nil {
		return err
	}
	r := newReport(ctx, o)
	err = s.all(ctx, o, only, r)
	if err = errors.Join(err, s.stage.Close()); err != nil || o.output == "" {
		return err
	}
	return os.WriteFile(o.output, r.text.Bytes(), 0o644) //nolint:gosec // a public report
}
