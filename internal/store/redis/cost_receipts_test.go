package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// heldBefore is the number of holds of one identity before holds are measured.
const heldBefore = 100_000

// receiptCost is a measurement of BenchmarkReceiptCost.
type receiptCost struct {
	name string
	rule func(i int) store.Rule
	held int // holds of the identity of rule before the measurement
	// settle settles the takes, and measures that alone.
	settle bool
}

var receiptCosts = []receiptCost{
	{name: "take without a receipt", rule: func(i int) store.Rule { return costRule(0, i%1000, 1<<30) }},
	{name: "take with a receipt", rule: estimated},
	{name: "settlement", rule: estimated, settle: true},
	{name: "hold", rule: func(i int) store.Rule { return heldBy(i % 1000) }},
	{name: "hold among 100000", rule: func(int) store.Rule { return heldBy(0) }, held: heldBefore},
	{name: "end of a hold among 100000", rule: func(int) store.Rule { return heldBy(0) }, held: heldBefore, settle: true},
}

func estimated(i int) store.Rule {
	r := costRule(0, i%1000, 1<<30)
	r.Settle = 600
	return r
}

func heldBy(subject int) store.Rule {
	return store.Rule{Subject: strconv.AppendInt(nil, int64(subject), 10), Return: 1, Method: store.Hold, Weight: 1, Time: 3600, Count: 1 << 30}
}

// BenchmarkReceiptCost reports the CPU time of takes with and without receipts, of
// settlements and of holds, in Redis and in this process, and the part of the scripts.
func BenchmarkReceiptCost(b *testing.B) {
	for _, c := range receiptCosts {
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/%d callers", c.name, callers), func(b *testing.B) { c.measure(b, callers) })
		}
	}
}

func (c *receiptCost) measure(b *testing.B, callers int) {
	server := storetest.StartServer(b)
	s, client := server.Open(b), server.Client()
	defer client.Close()
	n := max(b.N/callers, 1) * callers
	receipts := make([]string, max(n, c.held, 2000))
	take := func(i int) error {
		p, a := &store.Plan{Op: store.Take, Zone: time.UTC, Sets: oneSet(c.rule(i))}, new(store.Answers)
		err := s.Evaluate(context.Background(), p, a)
		receipts[i] = a.Receipt
		return err
	}
	settle := func(i int) error {
		_, err := s.Settle(context.Background(), &store.Settlement{Receipt: receipts[i], Zone: time.UTC, Judge: &storetest.Judge{Use: store.Use{Concerns: true, Given: true, Hits: 2}}})
		return err
	}
	together(b, 64, max(c.held, 2000), take)
	do := take
	if c.settle {
		together(b, 64, n, take)
		do = settle
	}
	before, scripts, own := redisCPU(b, client), scriptTime(b, client), ownCPU(b)
	b.ResetTimer()
	together(b, callers, n, do)
	b.StopTimer()
	b.ReportMetric((redisCPU(b, client)-before)/float64(n), "redis-µs/op")
	b.ReportMetric((scriptTime(b, client)-scripts)/float64(n), "script-µs/op")
	b.ReportMetric((ownCPU(b)-own)/float64(n), "own-µs/op")
}

// BenchmarkReceiptRatio compares takes without and with receipts and settlements of count
// rules: rounds of each alternate in one process with one Redis, so that other load on the
// machine affects all alike. CPU times are of Redis and of this process together.
func BenchmarkReceiptRatio(b *testing.B) {
	for _, settler := range []string{"the instance that took", "another instance"} {
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("settled by %s/%d callers", settler, callers), func(b *testing.B) {
				compareReceipts(b, callers, settler == "another instance")
			})
		}
	}
}

func compareReceipts(b *testing.B, callers int, elsewhere bool) {
	const round = 2048
	server := storetest.StartServer(b)
	s, client := server.Open(b), server.Client()
	defer client.Close()
	other := s
	if elsewhere {
		other = server.Open(b, func(o *redis.Options) { o.Prefix = s.Prefix() })
	}
	receipts := make([]string, round)
	take := func(rule func(i int) store.Rule) func(i int) error {
		return func(i int) error {
			p, a := &store.Plan{Op: store.Take, Zone: time.UTC, Sets: oneSet(rule(i))}, new(store.Answers)
			err := s.Evaluate(context.Background(), p, a)
			receipts[i] = a.Receipt
			return err
		}
	}
	settle := func(i int) error {
		got, err := other.Settle(context.Background(), &store.Settlement{Receipt: receipts[i], Zone: time.UTC, Judge: &storetest.Judge{Use: store.Use{Concerns: true, Given: true, Hits: 2}}})
		if err == nil && !got.Known {
			err = errors.New("a receipt is unknown")
		}
		return err
	}
	calls := []func(i int) error{take(func(i int) store.Rule { return costRule(0, i%1000, 1<<30) }), take(estimated), settle}
	var spent [3]float64
	rounds := max(b.N/round, 1)
	for n := range rounds + 1 {
		for i, do := range calls {
			before := redisCPU(b, client) + ownCPU(b)
			together(b, callers, round, do)
			if n > 0 { // the first round prepares
				spent[i] += redisCPU(b, client) + ownCPU(b) - before
			}
		}
	}
	b.ReportMetric(spent[0]/float64(rounds*round), "take-µs")
	b.ReportMetric(spent[1]/spent[0], "receipt/take")
	b.ReportMetric(spent[2]/spent[1], "settlement/receipt")
	b.ReportMetric(spent[2]/spent[0], "settlement/take")
}

// together carries out n calls by concurrent callers.
func together(b testing.TB, callers, n int, do func(i int) error) {
	b.Helper()
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			for i := caller; i < n; i += callers {
				if err := do(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

// TestReceiptsTakeFewBytes measures the memory of Redis that receipts of one rule take
// if nobody settles them, as docs/redis.md has it.
func TestReceiptsTakeFewBytes(t *testing.T) {
	const receipts, most = 4096, 300
	server := storetest.StartServer(t)
	s, client := server.Open(t), server.Client()
	defer client.Close()
	rule := store.Rule{Subject: []byte("0123456789"), Return: 1, Method: store.Count, Weight: 1, Time: 60, Count: 1 << 30, Settle: 600}
	take := func(int) error {
		var a store.Answers
		err := s.Evaluate(context.Background(), &store.Plan{Op: store.Take, Zone: time.UTC, Sets: oneSet(rule)}, &a)
		if err == nil && a.Receipt == "" {
			return errors.New("a take has no receipt")
		}
		return err
	}
	together(t, 64, 1, take)
	before := usedMemory(t, client)
	together(t, 64, receipts, take)
	each := (usedMemory(t, client) - before) / receipts
	t.Logf("%d bytes a receipt, its key and Redis's own overhead included", each)
	if each < 50 || each > most {
		t.Errorf("%d bytes a receipt; want at most %d", each, most)
	}
	server.CheckExpiries(t, s.Prefix())
}

// usedMemory returns the memory of Redis in bytes.
func usedMemory(t *testing.T, client *goredis.Client) int64 {
	t.Helper()
	for line := range strings.Lines(client.Info(context.Background(), "memory").Val()) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "used_memory:"); ok {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("INFO has no used_memory")
	return 0
}
