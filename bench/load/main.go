// Command load measures the service under load: the gRPC doors of Envoy, the HTTP
// doors, and the stores alone; their calls per second, latency, and the cost for the
// service and its Redis. Within one run, alternately, it compares them with a server
// whose answer is constant, with optimizations switched off, and with other rate limit
// services. `make bench` runs it, too.
//
//	go run ./bench/load [-short] [-only REGEXP]
//	go run ./bench/load -earlier BINARY [-only REGEXP] [-rounds N]
//	go run ./bench/load -resident-later 1h
//	go run ./bench/load -target ADDR -peer ADDR [-traffic NAME] [-callers N] [-rate N]
//
// All programs listen on loopback, and stop with this one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/koalagate/koalagate/bench/report"
	"github.com/koalagate/koalagate/bench/traffic"
)

// othersRounds is the number of turns in sections without promises.
const othersRounds = 3

// options contains the command line.
type options struct {
	report       *report.Options
	ratelimit    string
	earlier      string
	before       string
	instructions bool
	target, peer string
	traffic      string
	load         load
	bounds       bounds
	constant     string
	like         string
	later        time.Duration
}

func main() {
	var o options
	o.report = report.Flags()
	flag.StringVar(&o.ratelimit, "ratelimit", "", "also measure this binary of envoyproxy/ratelimit")
	flag.StringVar(&o.earlier, "earlier", "", "only compare with this `BINARY` of an earlier version of koalagate")
	flag.BoolVar(&o.instructions, "instructions", false, "with -earlier, count instructions with callgrind instead of CPU time, in process")
	flag.StringVar(&o.before, "before", "", "also measure this `BINARY` of koalagate from before later features")
	flag.StringVar(&o.target, "target", "", "the address of a running rate limit service, followed by /PID and /REDIS-PID to measure their CPU")
	flag.StringVar(&o.peer, "peer", "", "the same for another service to compare with")
	flag.StringVar(&o.traffic, "traffic", traffic.Plain.Name, "the traffic for -target and -peer")
	flag.IntVar(&o.load.callers, "callers", 64, "the number of callers of -target and -peer")
	flag.Float64Var(&o.load.rate, "rate", 0, "calls per second to -target and -peer; 0 makes a closed loop")
	flag.IntVar(&o.bounds.rounds, "rounds", 9, "the number of turns of each subject of a section; at most 3 if no goal needs its ratios")
	flag.DurationVar(&o.bounds.span, "span", 350*time.Millisecond, "the duration of a turn")
	flag.StringVar(&o.constant, "constant", "", "only serve constant answers at GRPC-ADDR,HTTP-ADDR")
	flag.StringVar(&o.like, "like", "", "with -constant, add the headers of the answer at this URL to HTTP answers")
	flag.DurationVar(&o.later, "resident-later", 0, "only measure the resident memory with a million identities of each method, and again after this `DURATION`")
	flag.Parse()
	// Garbage collections of the callers must not disturb a turn.
	debug.SetGCPercent(800)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := o.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/load:", err)
		os.Exit(1)
	}
}

func (o *options) run(ctx context.Context) error {
	if o.constant != "" {
		calls, web, _ := strings.Cut(o.constant, ",")
		return serveConstant(ctx, calls, web, o.like)
	}
	if o.report.Short {
		o.bounds = bounds{rounds: 1, span: 200 * time.Millisecond}
	}
	o.bounds.warmUp = o.bounds.span / 2
	if o.target != "" || o.peer != "" {
		return o.compare(ctx)
	}
	only, err := o.report.Chosen()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "koalagate-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := newScene(dir)
	if err != nil {
		return err
	}
	if o.later > 0 {
		return errors.Join(o.residentLater(ctx, s), s.stage.Close())
	}
	if o.earlier != "" {
		return errors.Join(o.compareVersions(ctx, s, only), s.stage.Close())
	}
	return errors.Join(o.all(ctx, s, only), s.stage.Close())
}
