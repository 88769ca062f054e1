// Command load measures the service under load: the doors of Envoy on gRPC,
// those on HTTP, and the stores alone; how many calls a second, how long they
// take, and what they cost the service and its Redis. It compares in one run,
// in turns: with a server whose answer is constant, with the optimisations
// switched off, and with other rate limit services.
//
//	go run ./bench/load [-o docs/bench-load.md] [-short] [-only REGEXP]
//	go run ./bench/load -target ADDR -peer ADDR [-traffic NAME] [-callers N] [-rate N]
//
// Everything listens on loopback, and what it starts ends with it.
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
)

// options are the command line.
type options struct {
	output, only string
	short        bool
	ratelimit    string
	target, peer string
	traffic      string
	load         load
	bounds       bounds
	constant     string
	like         string
}

func main() {
	var o options
	flag.StringVar(&o.output, "o", "", "the file for the report; none without it")
	flag.StringVar(&o.only, "only", "", "a regular expression for the names of the sections")
	flag.BoolVar(&o.short, "short", false, "measure shortly and roughly, for development")
	flag.StringVar(&o.ratelimit, "ratelimit", "", "the binary of envoyproxy/ratelimit, to be measured too")
	flag.StringVar(&o.target, "target", "", "the address of a rate limit service that runs, with /PID and /REDIS-PID behind it if their CPU is to be measured")
	flag.StringVar(&o.peer, "peer", "", "the same of another one to compare it with")
	flag.StringVar(&o.traffic, "traffic", plain.name, "what -target and -peer are asked")
	flag.IntVar(&o.load.callers, "callers", 64, "how many callers ask -target and -peer")
	flag.Float64Var(&o.load.rate, "rate", 0, "calls a second to -target and -peer; 0 asks again as soon as answered")
	flag.IntVar(&o.bounds.rounds, "rounds", 5, "how often each subject of a section has its turn")
	flag.DurationVar(&o.bounds.span, "span", 1200*time.Millisecond, "how long a turn is")
	flag.StringVar(&o.constant, "constant", "", "serve constant answers at GRPC-ADDR,HTTP-ADDR, and do nothing else")
	flag.StringVar(&o.like, "like", "", "with -constant, a URL: what answers on HTTP has the headers of the answer there")
	flag.Parse()
	// A turn must not be spoiled by the callers' own collections.
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
	return errors.Join(o.all(ctx, s, only), s.stage.Close())
}
