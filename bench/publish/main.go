// Command publish measures a publish of a large word list under load: how long the upload
// takes, and the rest until the version is in force, in which the instance reads it, and
// what callers notice in either. All programs are on
// loopback, with Redis; the publishing command has the lowest priority, because it usually
// runs on another machine.
//
//	go run ./bench/publish [-size 50] [-rate 500] [-span 10s]
package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
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
	"strings"
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
	token := rand.Text() // lets this program ask the admin address
	k, err := stage.Serve(binary, []string{"KOALAGATE_ADMIN_TOKEN=" + token}, "--rules", "redis:", "--redis", redis.URL())
	if err != nil {
		return err
	}
	if err := k.Listens(); err != nil {
		return err
	}
	i := &instance{binary, dir, k.Admin, token}
	if _, err := i.publish(ctx, 1); err != nil {
		return err
	}
	url := "http://" + k.HTTP + "/rule/take?act=post&uid="
	calm, err := o.load(ctx, url, func() { <-time.After(o.span) })
	if err != nil {
		return err
	}
	began := time.Now()
	var stored time.Time
	var failed error
	busy, err := o.load(ctx, url, func() { stored, failed = i.publish(ctx, o.size<<20/wordSize) })
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	took := time.Since(began)
	upload, rest := busy.split(stored)
	before, during, after := calm.sorted(), upload.sorted(), rest.sorted()
	fmt.Printf("load average before: %s; %.0f calls per second\n\n", origin.Load(), o.rate)
	fmt.Printf("| | calls | p50 | p99 |\n| --- | --- | --- | --- |\n")
	fmt.Printf("| before | %s |\n", before)
	fmt.Printf("| upload of %d MB, in %v | %s |\n", o.size, stored.Sub(began).Round(time.Millisecond), during)
	fmt.Printf("| until the version is in force, after %v | %s |\n", took.Round(time.Millisecond), after)
	fmt.Printf("\np99 during the upload: %.2f times that before; until the version is in force: %.2f times\n",
		float64(during.quantile(0.99))/float64(before.quantile(0.99)), float64(after.quantile(0.99))/float64(before.quantile(0.99)))
	return nil
}

// instance is the instance that a version is published to.
type instance struct{ binary, dir, admin, token string }

// publish publishes a word list of this many words. It returns when the list was stored.
func (i *instance) publish(ctx context.Context, words int) (stored time.Time, err error) {
	file, content, err := writeRules(i.dir, words)
	if err != nil {
		return stored, err
	}
	tokens := filepath.Join(i.dir, "token")
	if err := os.WriteFile(tokens, []byte(i.token), 0o600); err != nil {
		return stored, err
	}
	// The command has what the processors leave: it usually runs on another machine.
	c := exec.CommandContext(ctx, "nice", "-n", "19", i.binary, "publish", "--admin", i.admin, "--token-file", tokens, "--deadline", "5m", file) //nolint:gosec // the binary was built by this program
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { stored = i.watch(ctx, content) })
	out, err := c.CombinedOutput()
	cancel()
	group.Wait()
	switch {
	case err != nil:
		err = fmt.Errorf("%w: %s", err, out)
	case stored.IsZero():
		err = errors.New("the version is in force, but the instance did not report its list")
	}
	return stored, err
}

// watch asks until the instance has stored the content, and returns that time; zero if ctx
// ends before.
func (i *instance) watch(ctx context.Context, content string) time.Time {
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+i.admin+"/api/v1/contents/missing", strings.NewReader(content))
		if err != nil {
			return time.Time{}
		}
		r.Header.Set("Authorization", "Bearer "+i.token)
		r.Header.Set("Content-Type", "application/json")
		if resp, err := http.DefaultClient.Do(r); err == nil {
			var missing struct{ Contents []any }
			err := json.NewDecoder(resp.Body).Decode(&missing)
			_ = resp.Body.Close()
			if err == nil && resp.StatusCode == http.StatusOK && len(missing.Contents) == 0 {
				return time.Now()
			}
		}
		select {
		case <-ctx.Done():
			return time.Time{}
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// wordSize is the size of a line of the word list, in bytes.
const wordSize = 12

// writeRules writes a rule file with a word list of this many words. It returns its path,
// and the question of the API whether the list is stored.
func writeRules(dir string, words int) (rules, content string, err error) {
	list := make([]byte, 0, words*wordSize)
	for i := range words {
		list = fmt.Appendf(list, "word%07d\n", i)
	}
	rules = filepath.Join(dir, "rules.conf")
	content = fmt.Sprintf(`{"contents":[{"sha256":"%x","size":%d}]}`, sha256.Sum256(list), len(list))
	return rules, content, errors.Join(
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

// timed is a call: when it was due, and how long it took from then.
type timed struct {
	due  time.Time
	took time.Duration
}

type calls []timed

// split returns the calls that were due before an instant, and the others.
func (c calls) split(at time.Time) (before, after calls) {
	for _, one := range c {
		if one.due.Before(at) {
			before = append(before, one)
		} else {
			after = append(after, one)
		}
	}
	return before, after
}

// sorted returns the latencies in order.
func (c calls) sorted() times {
	list := make(times, len(c))
	for i := range c {
		list[i] = c[i].took
	}
	slices.Sort(list)
	return list
}

// times are latencies, in order.
type times []time.Duration

// quantile returns a quantile, 0 of none.
func (t times) quantile(q float64) time.Duration {
	if len(t) == 0 {
		return 0
	}
	return t[min(int(q*float64(len(t))), len(t)-1)]
}

func (t times) String() string {
	return fmt.Sprintf("%d | %v | %v", len(t), t.quantile(0.5).Round(10*time.Microsecond), t.quantile(0.99).Round(10*time.Microsecond))
}

// load makes calls at a fixed rate while f runs. The time of a call begins when it is due,
// so that a slow answer delays those behind it.
func (o *options) load(ctx context.Context, url string, f func()) (calls, error) {
	const callers = 32
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	parts, failed := make([]calls, callers), make([]error, callers)
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
				parts[i] = append(parts[i], timed{due, time.Since(due)})
			}
		})
	}
	f()
	cancel()
	group.Wait()
	return slices.Concat(parts...), errors.Join(failed...)
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
