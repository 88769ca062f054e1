// Command hostile measures what well-behaved callers of an instance notice of hostile
// peers: the latency of paced decisions at an HTTP and a gRPC door during each attack of
// package e2e, and during all of them, next to a calm instance. `make bench` runs it, too.
//
//	go run ./bench/hostile [-short] [-only REGEXP] [-rounds N] [-span DURATION]
//
// All programs listen on loopback, share the machine, and stop with this one.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/koalagate/koalagate/bench/process"
	"github.com/koalagate/koalagate/bench/report"
	"github.com/koalagate/koalagate/bench/stage"
	"github.com/koalagate/koalagate/bench/stats"
	"github.com/koalagate/koalagate/e2e"
)

// rules count each identity, so that each decision needs Redis.
const rules = `
[rules]
rule : [count] [uid=+] [time=60; count=1000000000] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// options contains the command line.
type options struct {
	report *report.Options
	rounds int
	span   time.Duration
}

func main() {
	o := options{report: report.Flags()}
	flag.IntVar(&o.rounds, "rounds", 3, "the number of turns of each attack")
	flag.DurationVar(&o.span, "span", time.Second, "the duration of a turn")
	target := flag.String("attack", "", "only attack the instance at GRPC-ADDR,HTTP-ADDR by -only")
	flag.Parse()
	if o.report.Short {
		o.rounds, o.span = 1, 500*time.Millisecond
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if *target != "" {
		err = o.attack(ctx, *target)
	} else {
		err = o.run(ctx)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/hostile:", err)
		os.Exit(1)
	}
}

func (o *options) run(ctx context.Context) (err error) {
	chosen, err := o.report.Chosen()
	if err != nil {
		return err
	}
	s, err := stage.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	file := filepath.Join(s.Dir, "rules.conf")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		return err
	}
	k, err := s.Koalagate(s.Binary, nil, "--rules", file, "--redis", s.Redis)
	if err != nil {
		return err
	}
	subjects := slices.DeleteFunc(subjectsOf(k), func(s *subject) bool { return !chosen.MatchString(s.name) })
	for range o.rounds {
		for _, s := range subjects {
			if err := s.turn(ctx, k, o.span); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			time.Sleep(time.Second) //nolint:forbidigo // the instance finishes what attackers began
		}
	}
	memory, err := peakMemory(k)
	if err != nil {
		return err
	}
	p := o.report.Begin()
	p.Chapter("Hostile peers", fmt.Sprintf(`One caller of %s and one of the rate limit service make %d decisions per second each,
with counters in Redis, while peers attack the same instance from another address
([bounds.md](../bounds.md)). Attackers, callers, Redis and the instance share the machine;
attackers run at a lower priority. Attacks are made alternately, %d rounds of %v each. The
largest memory of the instance was %d MB.`, "`/v1/auth-request`", pace, o.rounds, o.span, memory/1_000_000))
	table, slowest, failed := table(subjects)
	p.Add(report.Section{Name: "Decisions during attacks", Text: "Latencies in ms.", Tables: []report.Table{table}})
	p.FigureIn(" ms", "hostile peers, median latency of decisions during the worst attack", slowest)
	p.Figure("hostile peers, turns in which a decision failed", &stats.Value{Median: failed, Least: failed, Most: failed})
	p.FigureIn(" MB", "hostile peers, largest memory of the instance", &stats.Value{Median: float64(memory) / 1e6, Least: float64(memory) / 1e6, Most: float64(memory) / 1e6})
	return o.report.End(p)
}

// subject is a set of attacks, and what callers noticed of them.
type subject struct {
	name    string
	attacks string // a regular expression for their names; "" for none
	web     samples
	calls   samples
	failed  int // turns in which a decision failed
}

// malformed begins the names of the attacks by malformed requests, which are made together.
const malformed = "malformed requests"

// subjectsOf returns no attack, each attack, and all together.
func subjectsOf(k *e2e.Koalagate) []*subject {
	list := []*subject{{name: "none"}}
	peers := 0
	for _, a := range e2e.Attacks(k) {
		if strings.HasPrefix(a.Name, malformed) {
			peers += a.Peers
			continue
		}
		list = append(list, &subject{name: a.Name, attacks: "^" + regexp.QuoteMeta(a.Name) + "$"})
	}
	return append(list,
		&subject{name: fmt.Sprintf("%s on %d connections", malformed, peers), attacks: "^" + malformed},
		&subject{name: "all at once", attacks: "."})
}

// turn measures callers for a time while another process attacks.
func (s *subject) turn(ctx context.Context, k *e2e.Koalagate, span time.Duration) error {
	if s.attacks != "" {
		own, err := os.Executable()
		if err != nil {
			return err
		}
		attackers := exec.CommandContext(ctx, own, "-attack", k.GRPC+","+k.HTTP, "-only", s.attacks) //nolint:gosec // this program
		attackers.Stderr = os.Stderr
		if err := attackers.Start(); err != nil {
			return err
		}
		defer func() {
			_ = attackers.Process.Kill()
			_ = attackers.Wait() // killed
		}()
		time.Sleep(span / 4) //nolint:forbidigo // the attack begins
	}
	web, calls, err := callers(ctx, k, span)
	if err != nil {
		s.failed++
		fmt.Fprintf(os.Stderr, "%s: %v\n", s.name, err)
		return ctx.Err()
	}
	s.web.add(web)
	s.calls.add(calls)
	return nil
}

// attack makes the attacks that -only chooses until ctx ends.
func (o *options) attack(ctx context.Context, target string) error {
	if err := process.LowerPriority(); err != nil {
		return err
	}
	chosen, err := o.report.Chosen()
	if err != nil {
		return err
	}
	grpc, http, _ := strings.Cut(target, ",")
	var attackers sync.WaitGroup
	for _, a := range e2e.Attacks(&e2e.Koalagate{GRPC: grpc, HTTP: http}) {
		for range a.Peers {
			if chosen.MatchString(a.Name) {
				attackers.Go(func() { keepOn(ctx, a) })
			}
		}
	}
	attackers.Wait()
	return nil
}

// keepOn repeats an attack until ctx ends. An attack with one round is made once.
func keepOn(ctx context.Context, a e2e.Attack) {
	for ctx.Err() == nil {
		_ = a.Attempt(ctx) // a peer that cannot connect tries again
		if a.Rounds == 1 {
			<-ctx.Done()
		}
	}
}

// samples contains the median and the 99th percentile of each turn, in ms.
type samples struct{ p50, p99 []float64 }

func (s *samples) add(latencies []time.Duration) {
	slices.Sort(latencies)
	s.p50 = append(s.p50, milliseconds(latencies[len(latencies)/2]))
	s.p99 = append(s.p99, milliseconds(latencies[len(latencies)*99/100]))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// table returns what callers noticed, the largest median, and the number of turns in which a
// decision failed.
func table(subjects []*subject) (t report.Table, slowest *stats.Value, failed float64) {
	t.Columns = []string{"attack", "HTTP p50", "HTTP p99", "gRPC p50", "gRPC p99", "turns in which a decision failed"}
	for _, s := range subjects {
		row := []string{s.name}
		for _, turns := range [][]float64{s.web.p50, s.web.p99, s.calls.p50, s.calls.p99} {
			row = append(row, stats.Of(turns).String())
		}
		t.Rows = append(t.Rows, append(row, strconv.Itoa(s.failed)))
		failed += float64(s.failed)
		for _, turns := range [][]float64{s.web.p50, s.calls.p50} {
			if v := stats.Of(turns); v.Measured() && (slowest == nil || v.Median > slowest.Median) {
				slowest = &v
			}
		}
	}
	return t, slowest, failed
}

// peakMemory returns the largest resident memory of the instance so far, in bytes.
func peakMemory(k *e2e.Koalagate) (int, error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", k.PID()))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	if err != nil {
		return 0, err
	}
	_, after, _ := bytes.Cut(text, []byte("VmHWM:"))
	kilobytes := 0
	if _, err := fmt.Sscan(string(after), &kilobytes); err != nil {
		return 0, fmt.Errorf("%s has no VmHWM: %w", file.Name(), err)
	}
	return kilobytes << 10, nil
}
