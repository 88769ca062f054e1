// Command scale measures how far instances with one Redis go, and with a Redis Cluster of
// three nodes: decisions per second of 1, 4 and 8 instances, and what a decision costs
// Redis, with and without leases. `make bench` runs it, too.
//
//	go run ./bench/scale [-short] [-only REGEXP]
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
	"syscall"
	"time"

	"github.com/koalagate/koalagate/bench/report"
)

// options contains the command line.
type options struct {
	report *report.Options
	rounds int
	span   time.Duration
	sizes  []int // of fleets
}

func main() {
	o := options{report: report.Flags(), sizes: []int{1, 4, 8}}
	redis := flag.String("instance", "", "only be an instance with the Redis at this `URL`")
	rules := flag.String("rules", "", "the rule file of the instance")
	flag.IntVar(&o.rounds, "rounds", 3, "the number of turns of each measurement")
	flag.DurationVar(&o.span, "span", 500*time.Millisecond, "the duration of a turn")
	flag.Parse()
	if o.report.Short {
		o.rounds, o.span, o.sizes = 1, 200*time.Millisecond, []int{1, modelSize}
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

// run measures everything.
func (o *options) run(ctx context.Context) error {
	only, err := o.report.Chosen()
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
	r := o.begin()
	err = s.all(ctx, o, only, r)
	if err = errors.Join(err, s.stage.Close()); err != nil {
		return err
	}
	return o.report.End(r.Part)
}
