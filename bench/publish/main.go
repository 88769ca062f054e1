// Command publish measures how a large word list is published under load. It reports how
// long an upload takes, how long the version then takes to come into force, while the
// command and the instance read the list, and the latency of decisions during both. All
// programs run on loopback. The publishing command has the lowest priority, because it
// usually runs on another machine.
//
//	go run ./bench/publish [-size 50] [-uploads 10] [-rate 500] [-span 10s]
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

	"github.com/koalagate/koalagate/bench/origin"
	"github.com/koalagate/koalagate/bench/stage"
)

type options struct {
	size    int // MB
	uploads int
	rate    float64 // calls per second
	span    time.Duration
}

func main() {
	var o options
	flag.IntVar(&o.size, "size", 50, "the size of the word list in `MB`")
	flag.IntVar(&o.uploads, "uploads", 10, "the number of uploads")
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
	var failed error
	upload := func() {
		for n := range o.uploads {
			list[0] = byte('A' + n%26) // a new content
			failed = errors.Join(failed, i.upload(ctx, list))
		}
	}
	fmt.Printf("load average before: %s; %.0f calls per second\n\n", origin.Load(), o.rate)
	fmt.Printf("| | took | calls | p50 | p99 | p99 relative to before |\n| --- | --- | --- | --- | --- | --- |\n")
	var before times
	for _, phase := range []struct {
		name string
		do   func()
	}{
		{"before", func() { <-time.After(o.span) }},
		{fmt.Sprintf("%d uploads of %d MB", o.uploads, o.size), upload},
		{"until the version is in force", func() { failed = errors.Join(failed, i.publish(ctx, list)) }},
	} {
		began := time.Now()
		got, err := o.load(ctx, "http://"+k.HTTP+"/rule/take?act=post&uid=", phase.do)
		if err := errors.Join(err, failed); err != nil {
			return err
		}
		if before == nil {
			before = got
		}
		fmt.Printf("| %s | %.1f s | %s | %.2f |\n", phase.name, time.Since(began).Seconds(), got, float64(got.quantile(0.99))/float64(before.quantile(0.99)))
	}
	return nil
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
