package redis_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// hits is n hits that were counted at the same instant.
type hits struct{ at, n int64 }

func sum(list []hits) (n int64) {
	for _, h := range list {
		n += h.n
	}
	return n
}

// ledger is the hits that were admitted, by rule and subject. It checks them by the
// definition of the rules, without the stores.
type ledger map[account][]hits

type account struct {
	number  int64
	subject string
}

// read adds the takes that a taker wrote, and returns the number of admitted ones.
func (l ledger) read(t *testing.T, in io.Reader) int {
	takes := 0
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		numbers := make([]int64, len(fields))
		for i := range fields {
			n, err := strconv.ParseInt(fields[i], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			numbers[i] = n
		}
		if numbers[0] > 0 {
			takes++
		}
		numbers[0] = max(numbers[0], -numbers[0])
		for i := 1; i+2 < len(fields); i += 3 {
			if n := numbers[i+2]; n > 0 {
				a := account{numbers[i], fields[i+1]}
				l[a] = append(l[a], hits{numbers[0], n})
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return takes
}

// over describes every account with more hits than its rule allows.
func (l ledger) over() []string {
	var faults []string
	for a, list := range l {
		slices.SortStableFunc(list, func(a, b hits) int { return cmp.Compare(a.at, b.at) })
		r := &taken[a.number-1]
		if fault := overdrawn(r, list); fault != "" && !r.Overdraft {
			faults = append(faults, fmt.Sprintf("rule %d, subject %s: %s", a.number, a.subject, fault))
		}
	}
	return faults
}

// overdrawn describes the first instant with more hits than the rule allows; "" if
// there is none. The order within a millisecond matters to no method.
func overdrawn(r *store.Rule, list []hits) string {
	switch r.Method {
	case store.Count:
		return overWindows(r, list)
	case store.Base:
		return overBase(r, list)
	case store.Leak:
		return overLeak(r, list)
	}
	return overToken(r, list)
}

// overWindows checks the windows, each opened by its first hit. The day of the
// takers does not end.
func overWindows(r *store.Rule, list []hits) string {
	closes, counted := int64(0), int64(0)
	for _, h := range list {
		if h.at >= closes {
			closes, counted = closesAt(r, h.at), 0
		}
		if counted += h.n; counted > r.Count {
			return fmt.Sprintf("%d hits at %d in a window of %d", counted, h.at, r.Count)
		}
	}
	return ""
}

// closesAt returns when a window closes that opens at an instant. Months and years of
// the takers do not end.
func closesAt(r *store.Rule, at int64) int64 {
	length := r.Time * 1000
	switch r.Unit {
	case store.Seconds:
		return at + length
	case store.Minute:
		length = 60_000
	case store.Month, store.Year:
		return math.MaxInt64
	}
	return at - at%length + length
}

func overBase(r *store.Rule, list []hits) string {
	today, second := int64(0), []hits(nil)
	for _, h := range list {
		for range h.n {
			if today++; today >= r.Base {
				second = append(second, hits{h.at, 1})
			}
		}
	}
	return overWindows(r, second)
}

func overLeak(r *store.Rule, list []hits) string {
	counted, first := int64(0), 0
	for _, h := range list {
		counted += h.n
		for ; h.at-list[first].at >= r.Time*1000; first++ {
			counted -= list[first].n
		}
		if counted > r.Count {
			return fmt.Sprintf("%d hits in the %d s before %d; the limit is %d", counted, r.Time, h.at, r.Count)
		}
	}
	return ""
}

func overToken(r *store.Rule, list []hits) string {
	unit := r.Time * 1000
	full := r.Burst * unit
	level, at := full, int64(0)
	for _, h := range list {
		level, at = min(full, level+(h.at-at)*r.Count), h.at
		if level -= h.n * unit; level < -r.Wait*r.Count {
			return fmt.Sprintf("%d hits at %d, %d token·ms too few", h.n, h.at, -level)
		}
	}
	return ""
}

// compareWith compares the ledger with the counters in Redis of the rules whose
// windows are still open: a refused take counts nowhere, an admitted one once.
func (l ledger) compareWith(t *testing.T, server *storetest.Server, j *job) {
	r, err := redis.Open(redis.Options{URL: server.URL(), Prefix: j.Prefix, Budget: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, rule := range slices.Concat(contested[4:], taken[9:10], taken[14:]) {
		for i := range subjects {
			rule.Subject = []byte(strconv.Itoa(i))
			var a store.Answers
			p := &store.Plan{Op: store.Peek, Zone: j.zone(), Sets: []store.Set{{Allows: true, Rules: []store.Rule{rule}}}}
			if err := r.Evaluate(context.Background(), p, &a); err != nil {
				t.Fatal(err)
			}
			if want := sum(l[account{rule.Return, string(rule.Subject)}]); a.Sets[0].Hits != want {
				t.Errorf("rule %d, subject %d: %d hits are counted, %d were admitted", rule.Return, i, a.Sets[0].Hits, want)
			}
		}
	}
}

// TestLedgerDetectsOneHitTooMany checks the ledger itself: hits that just fit pass,
// and one hit more does not.
func TestLedgerDetectsOneHitTooMany(t *testing.T) {
	const begin = 1_793_505_600_000
	fits := map[int64][]hits{
		1:  {{0, 3}, {500, 17}, {1000, 20}, {2500, 20}},
		2:  {{0, 299}, {1, 10}, {1001, 10}},
		3:  {{0, 5}, {500, 10}, {1000, 5}, {1500, 10}},
		4:  {{0, 20}, {100, 1}, {1000, 9}, {9000, 20}},
		5:  {{0, 300}, {1, 400}},
		6:  {{0, 300}, {3_599_999, 300}, {3_600_000, 300}},
		8:  {{0, 20}, {999, 0}, {1000, 20}},
		9:  {{0, 900}, {60_000, 900}},
		10: {{0, 100 * large}, {90_000_000, 600 * large}},
		11: {{0, 15}, {1000, 15}},
		12: {{0, 15}, {1000, 15}},
		13: {{0, 5}, {0, 7}, {1000, 10}}, // seven wait for 0.7 s
	}
	for number, list := range fits {
		r := &taken[number-1]
		for i := range list {
			list[i].at += begin
		}
		if fault := overdrawn(r, list); fault != "" {
			t.Errorf("rule %d: %s, although it fits", number, fault)
		}
		more := slices.Clone(list)
		more[len(more)-1].n++
		if overdrawn(r, more) == "" {
			t.Errorf("rule %d: one hit too many is not detected", number)
		}
	}
}
