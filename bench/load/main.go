// Command load measures the service under load: the gRPC doors of Envoy, the HTTP
// doors, and the stores alone; their calls per second, latency, and the cost for the
// service and its Redis. Within one run, alternately, it compares them with a server
// whose answer is constant, with optimizations switched off, and with other rate limit
// services.
//
//	go run ./bench/load [-o docs/reports/bench-load.md] [-short] [-only REGEXP]
//	go run ./bench/load -earlier BINARY [-only REGEXP] [-rounds N]
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
	"regexp"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/koalagate/koalagate/bench/traffic"
)

// options contains the command line.
type options struct {
	output, only string
	short        bool
	ratelimit    string
	earlier      string
	target, peer string
	traffic      string
	load         load
	bounds       bounds
	constant     string
	like         string
}

func main() {
	var o options
	flag.StringVar(&o.output, "o", "", "write the report to this `FILE`")
	flag.StringVar(&o.only, "only", "", "a regular expression for the names of the sections")
	flag.BoolVar(&o.short, "short", false, "measure briefly and roughly, for development")
	flag.StringVar(&o.ratelimit, "ratelimit", "", "also measure this binary of envoyproxy/ratelimit")
	flag.StringVar(&o.earlier, "earlier", "", "only compare with this `BINARY` of an earlier version of koalagate")
	flag.StringVar(&o.target, "target", "", "the address of a running rate limit service, followed by /PID and /REDIS-PID to measure their CPU")
	flag.StringVar(&o.peer, "peer", "", "the same for another service to compare with")
	flag.StringVar(&o.traffic, "traffic", traffic.Plain.Name, "the traffic for -target and -peer")
	flag.IntVar(&o.load.callers, "callers", 64, "the number of callers of -target and -peer")
	flag.Float64Var(&o.load.rate, "rate", 0, "calls per second to -target and -peer; 0 makes a closed loop")
	flag.IntVar(&o.bounds.rounds, "rounds", 5, "the number of turns of each subject of a section")
	flag.DurationVar(&o.bounds.span, "span", 1200*time.Millisecond, "the duration of a turn")
	flag.StringVar(&o.constant, "constant", "", "only serve constant answers at GRPC-ADDR,HTTP-ADDR")
	flag.StringVar(&o.like, "like", "", "with -constant, add the headers of the answer at this URL to HTTP answers")
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
	if o.short {
		o.bounds = bounds{rounds: 3, span: 500 * time.Millisecond}
	}
	o.bounds.warmUp = o.bounds.span / 2
	if o.target != "" || o.peer != "" {
		return o.compare(ctx)
	}
	only, err := regexp.Compile(o.only)
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
	if o.earlier != "" {
		return errors.Join(o.compareVersions(ctx, s, only), s.stage.Close())
	}
	return errors.Join(o.all(ctx, s, only), s.stage.Close())
}
