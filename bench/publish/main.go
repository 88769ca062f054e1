// Command publish measures how a large word list is published under load. It reports how
// long an upload takes, how long the version then takes to come into force, while the
// command and the instance read the list, and the latency of decisions during both. All
// programs run on loopback. The publishing command has the lowest priority, because it
// usually runs on another machine. `make bench` runs it, too.
//
//	go run ./bench/publish [-short] [-size 50] [-rounds 9] [-rate 500] [-span 1500ms]
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
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

	"github.com/koalagate/koalagate/bench/report"
	"github.com/koalagate/koalagate/bench/stage"
	"github.com/koalagate/koalagate/bench/stats"
)

type options struct {
	size   int     // MB
	rounds int     // of calm and of an upload
	rate   float64 // calls per second
	span   time.Duration
	report *report.Options
}

func main() {
	o := options{report: report.Flags()}
	flag.IntVar(&o.size, "size", 50, "the size of the word list in `MB`")
	flag.IntVar(&o.rounds, "rounds", 9, "the number of uploads, and of the turns before them")
	flag.Float64Var(&o.rate, "rate", 500, "calls per second")
	flag.DurationVar(&o.span, "span", 1500*time.Millisecond, "how long to measure before an upload")
	flag.Parse()
	if o.report.Short {
		o.size, o.rounds, o.span = 5, 2, 500*time.Millisecond
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := o.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/publish:", err)
		os.Exit(1)
	}
}

func (o *options) run(ctx context.Context) (err error) {
	s, err := stage.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	token := rand.Text() // lets this program ask the admin address
	k, err := s.Serve(s.Binary, []string{"KOALAGATE_ADMIN_TOKEN=" + token}, "--rules", "redis:", "--redis", s.Redis)
	if err != nil {
		return err
	}
	if err := k.Listens(); err != nil {
		return err
	}
	i := &instance{s.Binary, s.Dir, k.Admin, token}
	if err := i.publish(ctx, words(1)); err != nil {
		return err
	}
	list := words(o.size << 20 / wordSize)
	url := "http://" + k.HTTP + "/rule/take?act=post&uid="
	var before, during phases
	for n := range o.rounds {
		if err := before.add(o.load(ctx, url, func() error { return pause(ctx, o.span) })); err != nil {
			return err
		}
		list[0] = byte('A' + n%26) // a new content
		if err := during.add(o.load(ctx, url, func() error { return i.upload(ctx, list) })); err != nil {
			return err
		}
	}
	var after phases
	if err := after.add(o.load(ctx, url, func() error { return i.publish(ctx, list) })); err != nil {
		return err
	}
	p := o.report.Begin()
	p.Chapter("Publishing", fmt.Sprintf(`%.0f calls per second to an instance with Redis, while a word list of %d MB is uploaded %d times, and then
rules with it are published. Instance, Redis, callers and the publishing command, which has
the lowest priority, share the machine.`, o.rate, o.size, o.rounds))
	p.Add(report.Section{Name: "Decisions during a publish", Text: "Medians of the turns.", Tables: []report.Table{{
		Columns: []string{"", "took s", "p50 ms", "p99 ms"},
		Rows:    [][]string{before.row("before"), during.row("an upload"), after.row("until the version is in force")},
	}}})
	ratio := stats.Ratios(during.p99, before.p99)
	p.Figure("an upload of a large word list, p99 of decisions relative to none", &ratio)
	return o.report.End(p)
}

// phases are the turns of one phase: their durations in s, and the latencies of calls in ms.
type phases struct{ took, p50, p99 []float64 }

// add adds a turn.
func (p *phases) add(took time.Duration, calls times, err error) error {
	p.took = append(p.took, took.Seconds())
	p.p50 = append(p.p50, 1000*calls.quantile(0.5).Seconds())
	p.p99 = append(p.p99, 1000*calls.quantile(0.99).Seconds())
	return err
}

func (p *phases) row(name string) []string {
	return []string{name, fmt.Sprintf("%.1f", stats.Of(p.took).Median), fmt.Sprintf("%.2f", stats.Of(p.p50).Median), fmt.Sprintf("%.2f", stats.Of(p.p99).Median)}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// instance is the instance that a version is published to.
type instance struct{ binary, dir, admin, token string }

// upload stores a word list, as the publishing command does.
func (i *instance) upload(ctx context.Context, list []byte) error {
	url := fmt.Sprintf("http://%s/api/v1/contents/%x", i.admin, sha256.Sum256(list))
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, url, bytes.NewReader(list))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+i.token)
	r.Header.Set("Content-Type", "application/octet-stream")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %s", url, resp.Status, text)
	}
	return err
}

// publish publishes rules with a word list, which it uploads unless it is stored.
func (i *instance) publish(ctx context.Context, list []byte) error {
	rules, tokens := filepath.Join(i.dir, "rules.conf"), filepath.Join(i.dir, "token")
	for name, content := range map[string][]byte{rules: []byte(ruleText), filepath.Join(i.dir, "words.dat"): list, tokens: []byte(i.token)} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			return err
		}
	}
	// The command has what the processors leave: it usually runs on another machine.
	c := exec.CommandContext(ctx, "nice", "-n", "19", i.binary, "publish", "--admin", i.admin, "--token-file", tokens, "--deadline", "5m", rules) //nolint:gosec // this program has built the binary
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// wordSize is the size of a line of the word list, in bytes.
const wordSize = 12

// words returns a list of n words.
func words(n int) []byte {
	list := make([]byte, 0, n*wordSize)
	for i := range n {
		list = fmt.Appendf(list, "word%07d\n", i)
	}
	return list
}

// ruleText is a rule file with a word list.
const ruleText = `[dicts]
words : words.dat
[rules]
rule : [direct] [uid @ words] [] [result=2; return=1]
rule : [count] [act=post; uid=+] [time=60; count=100000] [result=2; return=2]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// times are latencies, in order.
type times []time.Duration

// quantile returns a quantile, 0 of none.
func (t times) quantile(q float64) time.Duration {
	if len(t) == 0 {
		return 0
	}
	return t[min(int(q*float64(len(t))), len(t)-1)]
}

// load makes calls at a fixed rate while f runs, and returns how long it took. The time of a
// call begins when it is due, so that a slow answer delays those behind it.
func (o *options) load(ctx context.Context, url string, f func() error) (time.Duration, times, error) {
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
	err := f()
	took := time.Since(start)
	cancel()
	group.Wait()
	all := slices.Concat(parts...)
	slices.Sort(all)
	return took, all, errors.Join(errors.Join(failed...), err)
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
