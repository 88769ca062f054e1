// Command publish measures a publish of a large word list under load: how long it takes
// until the version is in force, and what callers notice meanwhile. All programs are on
// loopback, with Redis; the publishing command has the lowest priority, because it usually
// runs on another machine.
//
//	go run ./bench/publish [-size 50] [-rate 500] [-span 10s]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/koalagate/koalagate/bench/origin"
	"github.com/koalagate/koalagate/e2e"
)

type options struct {
	size int     // MB
	rate float64 // calls per second
	span time.Duration
}

func main() {
	var o options
	flag.IntVar(&o.size, "size", 50, "the size of the word list in `MB`")
	flag.Float64Var(&o.rate, "rate", 500, "calls per second")
	flag.DurationVar(&o.span, "span", 10*time.Second, "how long to measure before the publish")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := o.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/publish:", err)
		os.Exit(1)
	}
}

func (o *options) run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "publish")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	stage, err := e2e.NewStage(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	binary := filepath.Join(dir, "koalagate")
	if err := stage.Build(binary, false); err != nil {
		return err
	}
	redis, err := stage.Redis()
	if err != nil {
		return err
	}
	k, err := stage.Serve(binary, nil, "--rules", "redis:", "--redis", redis.URL())
	if err != nil {
		return err
	}
	if err := k.Listens(); err != nil {
		return err
	}
	publish := func(words int) (time.Duration, error) {
		file, err := writeRules(dir, words)
		if err != nil {
			return 0, err
		}
		began := time.Now()
		// The command has what the processors leave: it usually runs on another machine.
		c := exec.CommandContext(ctx, "nice", "-n", "19", binary, "publish", "--admin", k.Admin, "--deadline", "5m", file) //nolint:gosec // the binary was built above
		if out, err := c.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("%w: %s", err, out)
		}
		return time.Since(began), nil
	}
	if _, err := publish(1); err != nil {
		return err
	}
	url := "http://" + k.HTTP + "/rule/take?act=post&uid="
	calm, err := o.load(ctx, url, func() { <-time.After(o.span) })
	if err != nil {
		return err
	}
	var took time.Duration
	var failed error
	busy, err := o.load(ctx, url, func() { took, failed = publish(o.size << 20 / wordSize) })
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	fmt.Printf("load average before: %s; %.0f calls per second\n\n", origin.Load(), o.rate)
	fmt.Printf("| | calls | p50 | p99 |\n| --- | --- | --- | --- |\n")
	fmt.Printf("| before | %s |\n| during a publish of %d MB, in force after %v | %s |\n", calm, o.size, took.Round(time.Millisecond), busy)
	fmt.Printf("\np99 %.2f times that before\n", float64(busy.quantile(0.99))/float64(calm.quantile(0.99)))
	return nil
}

// wordSize is the size of a line of the word list, in bytes.
const wordSize = 12

// writeRules writes a rule file with a word list of this many words, and returns its path.
func writeRules(dir string, words int) (string, error) {
	list := make([]byte, 0, words*wordSize)
	for i := range words {
		list = fmt.Appendf(list, "word%07d\n", i)
	}
	rules := filepath.Join(dir, "rules.conf")
	return rules, errors.Join(
		os.WriteFile(filepath.Join(dir, "words.dat"), list, 0o600),
		os.WriteFile(rules, []byte(`[dicts]
words : words.dat
[rules]
rule : [direct] [uid @ words] [] [result=2; return=1]
rule : [count] [act=post; uid=+] [time=60; count=100000] [result=2; return=2]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`), 0o600))
}

// times are the latencies of calls, in order.
type times []time.Duration

func (t times) quantile(q float64) time.Duration { return t[min(int(q*float64(len(t))), len(t)-1)] }

func (t times) String() string {
	return fmt.Sprintf("%d | %v | %v", len(t), t.quantile(0.5).Round(10*time.Microsecond), t.quantile(0.99).Round(10*time.Microsecond))
}

// load makes calls at a fixed rate while f runs. The time of a call begins when it is due,
// so that a slow answer delays those behind it.
func (o *options) load(ctx context.Context, url string, f func()) (times, error) {
	const callers = 32
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	parts, failed := make([]times, callers), make([]error, callers)
	step := time.Duration(float64(callers) / o.rate * float64(time.Second))
	start := time.Now()
	for i := range callers {
		group.Go(func() {
			for n := 0; ctx.Err() == nil && failed[i] == nil; n++ {
				due := start.Add(step*time.Duration(n) + step*time.Duration(i)/callers)
				select {
				case <-time.After(time.Until(due)):
				case <-ctx.Done():
					return
				}
				failed[i] = call(ctx, client, url+strconv.Itoa(i*1000+n%1000))
				parts[i] = append(parts[i], time.Since(due))
			}
		})
	}
	f()
	cancel()
	group.Wait()
	all := slices.Concat(parts...)
	slices.Sort(all)
	return all, errors.Join(failed...)
}

func call(ctx context.Context, client *http.Client, url string) error {
	// A call that is under way when the measurement ends counts, too.
	r, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
