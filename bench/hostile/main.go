// Command hostile measures what well-behaved callers of an instance notice of hostile
// peers: the latency of paced decisions at an HTTP and a gRPC door during each attack of
// package e2e, and during all of them, next to a calm instance.
//
//	go run ./bench/hostile [-o docs/reports/bench-hostile.md] [-only REGEXP] [-rounds N] [-span DURATION]
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

// rules count each identity, so that each decision needs Redis.
const rules = `
[rules]
rule : [count] [uid=+] [time=60; count=1000000000] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// goal is the latency that the median decision must not exceed.
const goal = 10 * time.Millisecond

func main() {
	output := flag.String("o", "", "write the report to this `FILE`")
	only := flag.String("only", "", "a regular expression for the names of attacks")
	rounds := flag.Int("rounds", 5, "the number of turns of each attack")
	span := flag.Duration("span", 2*time.Second, "the duration of a turn")
	target := flag.String("attack", "", "only attack the instance at GRPC-ADDR,HTTP-ADDR by -only")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if *target != "" {
		err = attack(ctx, *target, *only)
	} else {
		err = run(ctx, *output, *only, *rounds, *span)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/hostile:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, output, only string, rounds int, span time.Duration) (err error) {
	chosen, err := regexp.Compile(only)
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
	busy := origin.Load()
	subjects := slices.DeleteFunc(subjectsOf(k), func(s *subject) bool { return !chosen.MatchString(s.name) })
	for range rounds {
		for _, s := range subjects {
			if err := s.turn(ctx, k, span); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			time.Sleep(time.Second) //nolint:forbidigo // the instance finishes what attackers began
		}
	}
	memory, err := peakMemory(k)
	if err != nil {
		return err
	}
	text := head(ctx, busy, rounds, span, memory) + table(subjects)
	fmt.Print(text)
	if output == "" {
		return nil
	}
	return os.WriteFile(output, []byte(text), 0o644) //nolint:gosec // a public report
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

// attack makes the attacks whose names match until ctx ends.
func attack(ctx context.Context, target, names string) error {
	if err := process.LowerPriority(); err != nil {
		return err
	}
	chosen, err := regexp.Compile(names)
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

// samples contains the median and the 99th percentile of each turn.
type samples struct{ p50, p99 []time.Duration }

func (s *samples) add(latencies []time.Duration) {
	slices.Sort(latencies)
	s.p50 = append(s.p50, latencies[len(latencies)/2])
	s.p99 = append(s.p99, latencies[len(latencies)*99/100])
}

// median returns the median of rounds and, in parentheses, the least and the most, in ms.
func median(turns []time.Duration) string {
	if len(turns) == 0 {
		return "no answer"
	}
	sorted := slices.Sorted(slices.Values(turns))
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return fmt.Sprintf("%.2f (%.2f–%.2f)", ms(sorted[len(sorted)/2]), ms(sorted[0]), ms(sorted[len(sorted)-1]))
}

func table(subjects []*subject) string {
	var b strings.Builder
	b.WriteString("\n| attack | HTTP p50 ms | p99 | gRPC p50 ms | p99 | |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, s := range subjects {
		verdict := "met"
		for _, p50 := range [][]time.Duration{s.web.p50, s.calls.p50} {
			sorted := slices.Sorted(slices.Values(p50))
			if s.failed > 0 || sorted[len(sorted)/2] > goal {
				verdict = "**missed**"
			}
		}
		if s.failed > 0 {
			verdict += fmt.Sprintf(", a decision failed in %d turns", s.failed)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", s.name, median(s.web.p50), median(s.web.p99), median(s.calls.p50), median(s.calls.p99), verdict)
	}
	return b.String()
}

func head(ctx context.Context, busy string, rounds int, span time.Duration, memory int) string {
	return fmt.Sprintf(`# What callers notice of hostile peers

Written by %s at commit %s, %s, %s, %s/%s, %d × %s.

One caller of %s and one of the rate limit service make %d decisions per second each,
with counters in Redis, while peers attack the same instance from another address
([bounds.md](../bounds.md)). Attackers, callers, Redis and the instance share the machine;
attackers run at a lower priority. The load average was %s before the run:
above 1 there was other load, and times are not reliable. Attacks are made alternately, %d
rounds of %v each. Figures are medians of rounds, with minimum and maximum in parentheses.
The goal is a median below %v. The largest memory of the instance was %d MB.
`,
		"`go run ./bench/hostile`", origin.Commit(ctx, "*.go", "*.lua", "go.mod"), time.Now().UTC().Format(time.DateOnly), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), origin.Processor(),
		"`/v1/auth-request`", pace, busy, rounds, span, goal, memory/1_000_000)
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
