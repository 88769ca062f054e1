//go:build !race

package counts

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/bench/record"
	"github.com/koalagate/koalagate/bench/traffic"
	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/wire/wiretest"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/ratelimit"
	"github.com/koalagate/koalagate/rules"
)

var update = flag.Bool("update", false, "write the measured numbers to testdata")

const (
	committed = "testdata/counts.txt"
	// together is the number of calls that share a script call.
	together = 15
	// rounds is the number of script calls to average.
	rounds = 8
	// ceiling is the ratio to the recorded number above which a count is worse; below
	// floor it is so much better that it must be recorded.
	ceiling, floor = 1.03, 0.9
)

// kinds are the kinds of traffic to count.
var kinds = []traffic.Kind{
	traffic.Plain, traffic.OneCounter, traffic.Four, traffic.Receipt, traffic.TwoOfOne, traffic.FourOfOne, traffic.EightOfOne,
	traffic.Methods, traffic.TokenDay, traffic.BaseCount, traffic.LeakDay, traffic.Token, traffic.Leak, traffic.Shadow,
	traffic.OneFull, traffic.TwoFull, traffic.UserFull, traffic.FourFull, traffic.OneOfFifteen,
	traffic.TokenFull, traffic.BaseFull, traffic.LeakFull, traffic.ReceiptFull,
}

// TestCountsPerCall fails if a call does more than recorded, or so much less that it must
// be recorded.
func TestCountsPerCall(t *testing.T) {
	server := storetest.StartServer(t)
	reader := newReader(t, server)
	want, err := record.Read(committed)
	if err != nil && !*update {
		t.Fatal(err)
	}
	var lines []string
	for _, k := range kinds {
		calls := open(t, server, &k)
		alone, batch := calls.alone(t, reader), calls.together(t, reader)
		for _, one := range []struct {
			name   string
			counts numbers
		}{{k.Name + ", alone", alone}, {k.Name + ", 15 together", batch}} {
			lines = append(lines, one.name+": "+one.counts.String())
			if !*update {
				compare(t, one.name, one.counts, want[one.name])
			}
		}
	}
	if *update {
		if err := os.WriteFile(committed, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// caller makes calls of one kind at the rate limit service, in this process.
type caller struct {
	kind *traffic.Kind
	gate *gate
	call func(request []byte) error
	next int
	// woken returns the goroutines that batches have made run so far.
	woken func() int64
}

func open(t *testing.T, server *storetest.Server, k *traffic.Kind) *caller {
	file := []rules.Source{{Name: "bench.conf", Text: []byte(traffic.Rules(k.Names()...))}}
	set, findings := rules.Parse(file, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	c := &caller{kind: k, gate: &gate{arrived: make(chan int), leave: make(chan struct{})}}
	counters := server.Open(t, func(o *redis.Options) {
		o.OnScript, o.Refusals = c.gate.pass, -1 // what the store remembers would not reach Redis
	})
	door := wiretest.Open(ratelimit.New(ratelimit.Options{Engine: engine.New(set, wiring.CountIn(counters)), Logger: slog.New(slog.DiscardHandler)}))
	c.woken = func() int64 { return counters.Calls().Wakeups }
	c.call = func(request []byte) error {
		_, err := door.Call(context.Background(), request)
		return err
	}
	return c
}

// request returns the next request in wire form.
func (c *caller) request(t *testing.T) []byte {
	c.next++
	return wiretest.Marshal(t, traffic.RateLimitRequest(c.kind.Request(c.next%(4*together))))
}

// alone counts calls that have a script call of their own, once their counters exist.
func (c *caller) alone(t *testing.T, r *reader) numbers {
	var requests [][]byte
	for range 4 * together {
		requests = append(requests, c.request(t))
	}
	all := func() {
		for _, request := range requests {
			if err := c.call(request); err != nil {
				t.Fatal(err)
			}
		}
	}
	all()
	before := c.woken()
	n := r.during(all, len(requests))
	n[wakeups] = float64(c.woken()-before) / float64(len(requests))
	n[allocations] = math.Round(testing.AllocsPerRun(2, all) / float64(len(requests)))
	return n
}

// together counts calls that share a script call.
func (c *caller) together(t *testing.T, r *reader) numbers {
	var sum numbers
	for i := range 1 + rounds { // the first opens a connection
		var requests [][]byte
		for range together {
			requests = append(requests, c.request(t))
		}
		for range 10 { // a busy machine may be late with some of the calls
			if n, together := c.batch(t, r, requests); together {
				if i > 0 {
					sum = sum.plus(n)
				}
				break
			}
		}
	}
	for i := range sum {
		sum[i] /= rounds
	}
	return sum
}

func compare(t *testing.T, name string, got numbers, want string) {
	t.Helper()
	recorded, err := parseNumbers(want)
	if err != nil {
		t.Errorf("%s: no recorded numbers (%v): run with -update", name, err)
		return
	}
	for i, n := range got {
		switch {
		case n > recorded[i]*ceiling+0.01:
			t.Errorf("%s: %.2f %s; want at most %.2f as recorded; mend it, or run with -update and explain it in the commit", name, n, words[i], recorded[i])
		case n < recorded[i]*floor-0.01:
			t.Errorf("%s: only %.2f %s instead of the recorded %.2f: run with -update", name, n, words[i], recorded[i])
		}
	}
}

// The counts of a call.
const (
	commands    = iota // of Redis, those of the script included
	keys               // changes of keys
	sent               // bytes to Redis
	received           // bytes from Redis
	logged             // bytes in Redis's log of changes, which replicas get, too
	wakeups            // of goroutines, by batches
	allocations        // only of a call alone
	number
)

var words = [number]string{"commands", "keys", "bytes to Redis", "bytes from Redis", "bytes logged", "wake-ups", "allocations"}

// numbers are the counts of a call.
type numbers [number]float64

// String returns the numbers as parseNumbers reads them.
func (n numbers) String() string {
	var parts []string
	for i, word := range words {
		parts = append(parts, fmt.Sprintf("%.2f %s", n[i], word))
	}
	return strings.Join(parts, ", ")
}

func parseNumbers(text string) (n numbers, err error) {
	parts := strings.Split(text, ", ")
	if len(parts) != number {
		return n, fmt.Errorf("%q has %d numbers; want %d", text, len(parts), number)
	}
	for i := range parts {
		value, word, _ := strings.Cut(parts[i], " ")
		if _, err := fmt.Sscan(value, &n[i]); err != nil || word != words[i] {
			return n, fmt.Errorf("%q; want a number of %s", parts[i], words[i])
		}
	}
	return n, nil
}

func (n numbers) plus(other numbers) numbers {
	for i := range n {
		n[i] += other[i]
	}
	return n
}

func TestNumbersAreReadAsWritten(t *testing.T) {
	want := numbers{1, 0.25, 100, 20.5, 7, 1.07, 12}
	if got, err := parseNumbers(want.String()); err != nil || !slices.Equal(got[:], want[:]) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for _, bad := range []string{"", "1.00 commands", strings.Replace(want.String(), "1.00", "x", 1)} {
		if _, err := parseNumbers(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
