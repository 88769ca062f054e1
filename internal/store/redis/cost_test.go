package redis_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// costs are the plans of BenchmarkRedisCost.
var costs = map[string]func(subject int, limit int64) []store.Set{
	"count": func(s int, limit int64) []store.Set { return oneSet(costRule(0, s, limit)) },
	"leak":  func(s int, limit int64) []store.Set { return oneSet(costRule(2, s, limit)) },
	"token": func(s int, limit int64) []store.Set { return oneSet(costRule(3, s, limit)) },
	"count per month": func(s int, limit int64) []store.Set {
		r := costRule(0, s, limit)
		r.Unit = store.Month
		return oneSet(r)
	},
	"four counts on four subjects": func(s int, limit int64) []store.Set {
		var sets []store.Set
		for i := range 4 {
			sets = append(sets, oneSet(costRule(0, s+i*1_000_000, limit))...)
		}
		return sets
	},
	"overdrafts over the limit": func(s int, _ int64) []store.Set { return oneSet(overdrawnRule(s)) },
	"four overdrafts over the limit": func(s int, _ int64) []store.Set {
		var sets []store.Set
		for i := range 4 {
			sets = append(sets, oneSet(overdrawnRule(s+i*1_000_000))...)
		}
		return sets
	},
	"four methods on one subject": func(s int, limit int64) []store.Set {
		return oneSet(costRule(0, s, limit), costRule(1, s, limit), costRule(2, s, limit), costRule(3, s, limit))
	},
}

func oneSet(rules ...store.Rule) []store.Set { return []store.Set{{Allows: true, Rules: rules}} }

func costRule(method, subject int, limit int64) store.Rule {
	r := rules()[method]
	r.Subject, r.Count, r.Burst = strconv.AppendInt(nil, int64(subject), 10), limit, limit
	return r
}

// overdrawnRule returns a rule with an overdraft that nearly every call exceeds.
func overdrawnRule(subject int) store.Rule {
	r := costRule(0, subject, 1)
	r.Time, r.Unit, r.Overdraft = 3600, store.Epoch, true
	return r
}

// BenchmarkRedisCost reports the CPU time of a decision in Redis and in this
// process, by kind of plan, number of concurrent callers and share of callers over
// their limit. CPU time depends least on how busy the machine is.
func BenchmarkRedisCost(b *testing.B) {
	for name, sets := range costs {
		for _, callers := range []int{1, 8, 64} {
			for _, way := range storetest.Ways(true) {
				b.Run(fmt.Sprintf("%s/%d callers/%s", name, callers, way.Name), func(b *testing.B) {
					cost(b, callers, way.Set, func(i int) []store.Set { return sets(i%1000, 1<<30) })
				})
			}
		}
	}
	for _, way := range storetest.Ways(true) {
		b.Run("count, nine in ten over the limit/64 callers/"+way.Name, func(b *testing.B) {
			cost(b, 64, way.Set, func(i int) []store.Set {
				if i%10 > 0 {
					return oneSet(costRule(0, i%100, 1))
				}
				return oneSet(costRule(0, 1000+i, 1))
			})
		})
	}
}

// cost measures the CPU time per call.
func cost(b *testing.B, callers int, change func(*redis.Options), sets func(i int) []store.Set) {
	server := storetest.StartServer(b)
	s, client := server.Open(b, change), server.Client()
	defer client.Close()
	run := func(n int) {
		var group sync.WaitGroup
		for caller := range callers {
			group.Go(func() {
				p, a := &store.Plan{Op: store.Take, Zone: time.UTC}, new(store.Answers)
				for i := range n / callers {
					p.Sets = sets(i*callers + caller)
					if err := s.Evaluate(context.Background(), p, a); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
	}
	run(2000)
	n := max(b.N/callers, 1) * callers
	before, own := redisCPU(b, client), ownCPU(b)
	b.ResetTimer()
	run(n)
	b.StopTimer()
	b.ReportMetric((redisCPU(b, client)-before)/float64(n), "redis-µs/op")
	b.ReportMetric((ownCPU(b)-own)/float64(n), "own-µs/op")
}

// redisCPU returns the CPU time of Redis in µs.
func redisCPU(b *testing.B, client *goredis.Client) float64 {
	b.Helper()
	sum := 0.0
	for line := range strings.Lines(client.Info(context.Background(), "cpu").Val()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += seconds * 1e6
		}
	}
	return sum
}

// scriptTime returns the time that Redis spent in scripts, in µs.
func scriptTime(b *testing.B, client *goredis.Client) float64 {
	b.Helper()
	_, stats, _ := strings.Cut(client.Info(context.Background(), "commandstats").Val(), "cmdstat_evalsha:")
	_, stats, _ = strings.Cut(stats, "usec=")
	text, _, _ := strings.Cut(stats, ",")
	spent, err := strconv.ParseFloat(text, 64)
	if err != nil {
		b.Fatalf("Redis states no time of scripts: %v", err)
	}
	return spent
}

// ownCPU returns the CPU time of this process in µs.
func ownCPU(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1000
}
