// Command script measures the script in Redis alone. Services, of this commit and of
// another one, encode the same decisions in batches of 15: a proxy between each of them
// and its Redis records the script calls. They are replayed against a redis-server per
// version, alternately; what is compared is the CPU time of Redis per decision or, with
// callgrind, its instructions, which other load on the machine does not change. `make bench`
// runs it, too, for the CPU time of this commit.
//
//	go run ./bench/script [-earlier BINARY] [-only REGEXP] [-rounds N] [-batch N]
//	go run ./bench/script -instructions [-earlier BINARY] [-update]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"

	"github.com/koalagate/koalagate/bench/report"
	"github.com/koalagate/koalagate/e2e"
)

// figures is where the instructions per decision are kept.
const figures = "bench/script/testdata/instructions.txt"

// keptBatch is the size of the batches whose figures are kept.
const keptBatch = 15

// options contains the command line.
type options struct {
	report               *report.Options
	earlier              string
	only                 *regexp.Regexp
	rounds, passes       int
	batch, batches       int
	instructions, update bool
}

func main() {
	o := options{report: report.Flags()}
	flag.StringVar(&o.earlier, "earlier", "", "compare with this `BINARY` of another version of koalagate")
	flag.IntVar(&o.rounds, "rounds", 9, "the number of turns of each version")
	flag.IntVar(&o.passes, "passes", 12, "how often a turn replays the decisions")
	flag.IntVar(&o.batch, "batch", keptBatch, "the decisions in a script call")
	flag.IntVar(&o.batches, "batches", 40, "the script calls of a scene")
	flag.BoolVar(&o.instructions, "instructions", false, "count instructions with callgrind instead of CPU time")
	flag.BoolVar(&o.update, "update", false, "with -instructions, keep the figures in "+figures)
	flag.Parse()
	if o.report.Short {
		o.rounds, o.passes = 1, 3
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := o.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/script:", err)
		os.Exit(1)
	}
}

func (o *options) run(ctx context.Context) (err error) {
	if o.only, err = o.report.Chosen(); err != nil {
		return err
	}
	if o.rounds < 1 || o.passes < 1 || o.batches < 2 || o.batch < 1 || o.batch > 64 {
		return errors.New("want at least one round and pass, two batches, and batches of 1 to 64 decisions")
	}
	if o.update && (o.only.String() != "" || o.batch != keptBatch) {
		return fmt.Errorf("-update keeps the figures of all scenes, with -batch %d", keptBatch)
	}
	dir, err := os.MkdirTemp("", "koalagate-script-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	stage, err := e2e.NewStage(dir)
	if err != nil {
		return err
	}
	own := filepath.Join(dir, "koalagate")
	if err := stage.BuildRelease(own); err != nil {
		return err
	}
	binaries := []string{own}
	if o.earlier != "" {
		binaries = []string{o.earlier, own}
	}
	return errors.Join(o.measure(ctx, stage, dir, binaries), stage.Close())
}
