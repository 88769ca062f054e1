package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/koalagate/koalagate"
	"github.com/koalagate/koalagate/bench/process"
)

// callers is the number of callers of an instance, in a closed loop.
const callers = 32

// turn is an order to an instance: a line of its input.
type turn struct {
	Traffic int // in kinds
	Leases  bool
	Span    time.Duration
}

// done is the answer to a turn: a line of the instance's output.
type done struct {
	Decisions int64
	Took      time.Duration
	Fault     string
}

// serve is an instance that carries out turns until its input ends.
func serve(ctx context.Context, url, rules string) error {
	gate, err := koalagate.Open(koalagate.Options{ //nolint:contextcheck // it ends with Close
		Rules: []string{rules}, Redis: url, Logger: slog.New(slog.DiscardHandler),
		// Otherwise a busy machine would decide in process, and look fast.
		RedisOptions: koalagate.RedisOptions{Budget: 5 * time.Second},
	})
	if err != nil {
		return err
	}
	defer gate.Close()
	orders, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var t turn
		if err := orders.Decode(&t); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := answers.Encode(carryOut(ctx, gate, &t)); err != nil {
			return err
		}
	}
}

// carryOut has the callers make calls until the turn ends.
func carryOut(ctx context.Context, gate *koalagate.Gate, t *turn) *done {
	var all done
	var mu sync.Mutex
	var running sync.WaitGroup
	begin := time.Now()
	for range callers {
		running.Go(func() {
			n, err := ask(ctx, gate, t, begin.Add(t.Span))
			mu.Lock()
			defer mu.Unlock()
			all.Decisions += n
			if err != nil {
				all.Fault = err.Error()
			}
		})
	}
	running.Wait()
	all.Took = time.Since(begin)
	return &all
}

// ask makes one call after the other. Each must be admitted, by the counters in Redis.
func ask(ctx context.Context, gate *koalagate.Gate, t *turn, until time.Time) (n int64, err error) {
	kind, param := &kinds[t.Traffic], parameters[t.Leases]
	random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())) //nolint:gosec // not a secret
	for ; n%16 != 0 || time.Now().Before(until); n++ {
		d, err := gate.Allow(ctx, map[string]string{param: kind.next(param, random)})
		switch {
		case err != nil:
			return n, err
		case d.Degraded:
			return n, errors.New("Redis did not answer within 5 s")
		case !d.Allowed():
			return n, errors.New("a call was refused")
		}
	}
	return n, nil
}

// instance is an instance in a process of its own.
type instance struct {
	process.ID
	orders  *json.Encoder
	answers *json.Decoder
	input   io.Closer
	command *exec.Cmd
}

// start starts an instance of this program.
func start(ctx context.Context, url, rules string) (*instance, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, self, "-instance", url, "-rules", rules) //nolint:gosec // this program
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	return &instance{process.ID(c.Process.Pid), json.NewEncoder(in), json.NewDecoder(bufio.NewReader(out)), in, c}, nil
}

// end ends the instance, which then gives back what it holds.
func (i *instance) end() error { return errors.Join(i.input.Close(), i.command.Wait()) }
