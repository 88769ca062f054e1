package rlqs_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/rules"
)

// in runs a test in a bubble, whose clock advances while all goroutines wait.
func in(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// pass lets time pass, and a moment more, so that a tick at its end is over.
func pass(d time.Duration) {
	time.Sleep(d + time.Millisecond)
	synctest.Wait()
}

// shapes returns what matters of usages here, one a line.
func shapes(usages []store.Usage) string {
	var lines []string
	for _, u := range usages {
		line := "occasion"
		if u.Reported {
			line = fmt.Sprintf("report %d+%d after %d s", u.Allowed, u.Denied, u.Elapsed/1000)
		}
		if u.Fresh {
			line += " fresh"
		}
		if u.Leave {
			line += " leave"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func wantUsages(t *testing.T, d *door, what, want string) {
	t.Helper()
	if got := shapes(d.store.take()); got != want {
		t.Errorf("%s: got\n%s\nwant\n%s", what, got, want)
	}
}

// A bucket in use has an occasion every second; the time between reports is that of this
// clock, whatever Envoy says.
func TestBucketsInUseChangeBetweenReports(t *testing.T) {
	in(t, func(t *testing.T) {
		d := open(t, limited)
		g := d.connect("edge-1")
		g.report(used("ann", 0, 1, 0))
		wantUsages(t, d, "a new bucket", "report 1+0 after 0 s fresh")
		pass(2 * time.Second)
		wantUsages(t, d, "two seconds", "occasion\noccasion")
		d.store.set(store.Assignment{Send: true, Rate: 15, Burst: 10, Lasts: 7000}, nil)
		g.got()
		pass(time.Second)
		g.want("a changed share", "ann: 10, 3 per 2.000000001s, for 7s")
		d.store.set(store.Assignment{}, nil)
		pass(2 * time.Second)
		d.store.take()
		g.report(used("ann", 1<<62, 40, 2))
		wantUsages(t, d, "a report", "report 40+2 after 5 s")
		g.want("a share that stays", "")
	})
}

func TestIdleBucketsAreAbandoned(t *testing.T) {
	in(t, func(t *testing.T) {
		d := open(t, limited)
		g := d.connect("edge-1")
		g.report(used("ann", 0, 1, 0))
		g.got()
		d.store.set(store.Assignment{}, nil)
		for range 5 {
			pass(5 * time.Second)
			g.report(used("ann", 5, 0, 0))
			g.want("an idle bucket", "")
		}
		d.store.take()
		pass(5 * time.Second)
		wantUsages(t, d, "an idle bucket", "")
		g.report(used("ann", 5, 0, 0))
		g.want("six idle reports", "ann: abandon")
		wantUsages(t, d, "an abandoned bucket", "report 0+0 after 5 s fresh leave")
		g.report(used("ann", 0, 1, 0))
		wantUsages(t, d, "the bucket again", "report 1+0 after 0 s fresh")
	})
}

// Many buckets that are abandoned at once keep neither the buckets in use from their assignments
// nor the next report waiting, though each takes a call of the store.
func TestIdleBucketsHoldUpNoOthers(t *testing.T) {
	in(t, func(t *testing.T) {
		d := open(t, limited)
		g := d.connect("edge-1")
		const idle, call = 1000, 20 * time.Millisecond
		report := func(elapsed int64, of uint64) {
			var list usages
			for i := range idle {
				list = append(list, used(fmt.Sprint("tenant ", i), elapsed, of, 0))
			}
			g.report(append(list, used("ann", elapsed, 1, 0))...)
		}
		report(0, 1)
		for range 5 {
			pass(5 * time.Second)
			report(5, 0)
		}
		pass(5 * time.Second)
		g.got()
		d.store.answer = func(*store.Usage) (store.Assignment, error) {
			time.Sleep(call)
			return granted, nil
		}
		d.store.take()
		report(5, 0)
		pass(300 * time.Millisecond)
		if got := g.got(); !strings.Contains(got, "ann: 10, 20 per 1s, for 7s") {
			t.Errorf("the bucket in use gets nothing in 0.3 s; others get %d actions", strings.Count(got, "\n"))
		}
		pass(time.Second)
		if used := d.store.take(); len(used) < idle || len(used) > idle+3 {
			t.Errorf("%d calls of the store; want one for each bucket, and some at ticks", len(used))
		}
		if got := d.rlqs.Stats().Buckets; got != 1 {
			t.Errorf("%d buckets are left after 1.3 s; want the one in use", got)
		}
	})
}

// What an Envoy is called does not depend on its stream, and only one that comes back by another
// stream goes on with what it had.
func TestEnvoysKeepTheirSharesByTheirNames(t *testing.T) {
	for name, test := range map[string]struct {
		first, second   string
		elapsed         int64
		same            bool
		allowed, denied int64
	}{
		"an Envoy that comes back":                {first: "edge-1", second: "edge-1", elapsed: 5, same: true, allowed: 9},
		"another one with the name":               {first: "edge-1", second: "edge-1", same: true, allowed: 9},
		"another one":                             {first: "edge-1", second: "edge-2", elapsed: 5, allowed: 9},
		"one without a name that comes back":      {elapsed: 5, denied: 9},
		"one with a certificate":                  {first: "certificate=a", second: "certificate=a", elapsed: 5, same: true, allowed: 9},
		"one with another certificate":            {first: "certificate=a", second: "certificate=b", elapsed: 5, allowed: 9},
		"one with a certificate for a name":       {first: "a", second: "certificate=a", elapsed: 5, allowed: 9},
		"one with a name longer than its maximum": {first: strings.Repeat("e", 300), second: strings.Repeat("e", 300), elapsed: 5, same: true, allowed: 9},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T) {
				d := open(t, limited)
				first := d.connect(test.first)
				first.report(used("ann", 0, 1, 0))
				before := d.store.take()
				second := d.connect(test.second)
				second.report(used("ann", test.elapsed, 9, 0))
				after := d.store.take()
				if len(before) != 1 || len(after) != 1 {
					t.Fatalf("%d and %d usages; want one each", len(before), len(after))
				}
				if same := before[0].Holder == after[0].Holder; same != test.same || after[0].Allowed != test.allowed || after[0].Denied != test.denied {
					t.Errorf("the same holder: %v, with %d allowed and %d denied; want %v, %d and %d", same, after[0].Allowed, after[0].Denied, test.same, test.allowed, test.denied)
				}
				if before[0].Stream == after[0].Stream || before[0].Returns || after[0].Returns != (test.elapsed > 0) {
					t.Errorf("it returns: %v, by the stream %q after %q", after[0].Returns, after[0].Stream, before[0].Stream)
				}
				if seen := d.rlqs.Stats(); seen.Allowed != 10 || seen.Denied != 0 {
					t.Errorf("%d hits allowed and %d denied are shown; want 10 allowed", seen.Allowed, seen.Denied)
				}
				second.report(used("ann", 5, 9, 0))
				if again := d.store.take(); len(again) != 1 || again[0].Returns || again[0].Stream != after[0].Stream {
					t.Errorf("then it reports %+v; want the same stream, which does not return", again)
				}
			})
		})
	}
}

// A changed rule, exception or mode reaches Envoy within a second, also for a bucket that has
// no requests.
func TestChangesReachEnvoyWithinASecond(t *testing.T) {
	for name, test := range map[string]struct {
		change     func(*door)
		want, back string
	}{
		"a mode": {
			func(d *door) { d.modes.Set(map[string]engine.Mode{"rlqs": engine.ModeObserve}) },
			"ann: ALLOW_ALL for 7s", "ann: 10, 20 per 1s, for 7s",
		},
		"a rule": {
			func(d *door) { d.engine.Swap(parse(d.t, strings.Replace(limited, "blocked", "ann", 1))) },
			"ann: DENY_ALL for 7s", "ann: 10, 20 per 1s, for 7s",
		},
		"a ban": {
			func(d *door) {
				d.banned.Set([]engine.Exception{{
					ID: "x1", Kind: engine.ExceptBan, Params: []rules.Param{{Name: "tenant", Value: "ann"}}, Until: time.Now().Add(3 * time.Second).UnixMilli(),
				}})
			},
			"ann: DENY_ALL for 3s", "ann: 10, 20 per 1s, for 7s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T) {
				d := open(t, limited)
				g := d.connect("edge-1")
				g.report(used("ann", 0, 1, 0))
				d.store.set(store.Assignment{}, nil)
				pass(5 * time.Second)
				g.report(used("ann", 5, 0, 0))
				g.got()
				test.change(d)
				pass(time.Second)
				g.want("changed", test.want)
				d.store.set(granted, nil)
				d.store.take()
				d.modes.Set(map[string]engine.Mode{"rlqs": engine.ModeEnforce})
				d.engine.Swap(parse(t, limited))
				d.banned.Set(nil)
				pass(time.Second)
				g.want("changed back", test.back)
				wantUsages(t, d, "after a blanket rule", "occasion fresh")
			})
		})
	}
}

// While nothing is left, an Envoy without a share refuses; one that has a share keeps it.
func TestSpentLimitsRefuse(t *testing.T) {
	in(t, func(t *testing.T) {
		d := open(t, limited)
		d.store.set(store.Assignment{Reason: store.NoRate}, nil)
		g := d.connect("edge-1")
		g.report(used("ann", 0, 1, 0))
		g.want("nothing is left", "ann: DENY_ALL for 7s")
		pass(4 * time.Second)
		g.want("nothing is left for a while", "")
		pass(time.Second)
		g.want("the refusal is nearly over", "ann: DENY_ALL for 7s")
		d.store.set(granted, nil)
		pass(time.Second)
		g.want("a share is free", "ann: 10, 20 per 1s, for 7s")
		d.store.set(store.Assignment{Reason: store.NoBurst}, nil)
		pass(4 * time.Second)
		g.want("nothing more is left", "")
		pass(time.Second)
		g.want("the share is nearly over", "ann: DENY_ALL for 7s")
		d.store.set(store.Assignment{Reason: store.BannedNow, Banned: 2500}, nil)
		pass(5 * time.Second)
		g.want("a ban of the rule", "ann: DENY_ALL for 3s")
	})
}

// So does an Envoy for whose share there is no room, and the log says why.
func TestSharesWithoutRoomRefuse(t *testing.T) {
	for reason, log := range map[store.Reason]string{
		store.TooMany:     "too many gateways share the limit",
		store.OutOfMemory: "the in-process store is full",
	} {
		t.Run(reason.String(), func(t *testing.T) {
			in(t, func(t *testing.T) {
				d := open(t, limited)
				d.store.set(store.Assignment{Reason: reason}, nil)
				g := d.connect("edge-1")
				g.report(used("ann", 0, 1, 0))
				g.want("no room", "ann: DENY_ALL for 7s")
				pass(5 * time.Second)
				g.want("no room for a while", "ann: DENY_ALL for 7s")
				if !strings.Contains(d.logged(), "refuse all") || !strings.Contains(d.logged(), "rule=201") || !strings.Contains(d.logged(), log) {
					t.Errorf("the log is %q; want %q", d.logged(), log)
				}
				d.store.set(granted, nil)
				pass(time.Second)
				g.want("there is room", "ann: 10, 20 per 1s, for 7s")
			})
		})
	}
}

// An Envoy that may let everything pass may no longer do so once a limit applies of which
// nothing is left.
func TestSpentLimitsEndWhatAllowsAll(t *testing.T) {
	for name, allows := range map[string]func(d *door, is bool){
		"a mode": func(d *door, is bool) {
			mode := engine.ModeEnforce
			if is {
				mode = engine.ModeObserve
			}
			d.modes.Set(map[string]engine.Mode{"rlqs": mode})
		},
		"a rule": func(d *door, is bool) {
			text := limited
			if is {
				text = strings.Replace(limited, "tenant=free", "tenant=ann", 1)
			}
			d.engine.Swap(parse(d.t, text))
		},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T) {
				d := open(t, limited)
				d.store.set(store.Assignment{Reason: store.NoRate}, nil)
				allows(d, true)
				g := d.connect("edge-1")
				g.report(used("ann", 0, 1, 0))
				g.want("everything passes", "ann: ALLOW_ALL for 7s")
				allows(d, false)
				pass(time.Second)
				g.want("the limit applies", "ann: DENY_ALL for 7s")
				pass(3 * time.Second)
				g.want("it applies for a while", "")
			})
		})
	}
}

// An Envoy that came back to an instance keeps what it has from the other one.
func TestNothingReplacesTheShareOfAnotherStream(t *testing.T) {
	in(t, func(t *testing.T) {
		d := open(t, limited)
		d.store.set(store.Assignment{Reason: store.NoRate}, nil)
		g := d.connect("")
		g.report(used("ann", 5, 100, 0))
		wantUsages(t, d, "it comes back", "report 0+100 after 0 s")
		pass(7 * time.Second)
		g.want("what it has lasts", "")
		pass(time.Second)
		g.want("what it had is over", "ann: DENY_ALL for 7s")
	})
}

func TestFailuresOfTheStoreChangeNothing(t *testing.T) {
	in(t, func(t *testing.T) {
		d := open(t, limited)
		d.store.set(store.Assignment{}, errAway)
		g := d.connect("edge-1")
		g.report(used("ann", 0, 1, 0))
		pass(3 * time.Second)
		g.want("the store is away", "")
		if n := strings.Count(d.logged(), "away"); n != 1 {
			t.Errorf("%d lines about it; want 1 in\n%s", n, d.logged())
		}
		if s := d.rlqs.Stats(); s.Allowed != 1 || s.Assigned["none"] != 0 {
			t.Errorf("%d hits are counted, and %d answers; want the reported one", s.Allowed, s.Assigned["none"])
		}
		d.store.set(granted, nil)
		pass(time.Second)
		g.want("the store is back", "ann: 10, 20 per 1s, for 7s")
	})
}

// A call that fails may have assigned a share in the store. Envoy gets what it has there by the
// next one; if what Envoy has is nearly over, its bucket may be empty by then, and counts as full.
func TestSharesOfFailedCallsAreRepeated(t *testing.T) {
	for name, test := range map[string]struct {
		failing time.Duration // after the share
		usages  string
		want    string
	}{
		"soon": {2 * time.Second, "occasion", "ann: 10, 40 per 1s, for 6s"},
		"late": {4 * time.Second, "occasion fresh", "ann: 10, 40 per 1s, for 6s"},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T) {
				d := open(t, limited)
				g := d.connect("edge-1")
				g.report(used("ann", 0, 1, 0))
				g.want("a share", "ann: 10, 20 per 1s, for 7s")
				kept := store.Assignment{Rate: 400, Burst: 10, Lasts: 6000}
				d.store.set(kept, nil)
				pass(test.failing)
				g.want("what it keeps", "")
				d.store.set(store.Assignment{}, errAway)
				pass(time.Second)
				g.want("a failed call", "")
				d.store.answer = func(u *store.Usage) (store.Assignment, error) {
					a := kept
					a.Send = u.Fresh
					return a, nil
				}
				d.store.take()
				pass(time.Second)
				wantUsages(t, d, "the next call", test.usages)
				g.want("the next call", test.want)
				pass(time.Second)
				wantUsages(t, d, "the one after it", "occasion")
				g.want("the one after it", "")
			})
		})
	}
}

// When Redis goes away and comes back, other counters answer than before, which may take another
// share for what Envoy has: it gets the one that they have.
func TestSharesOfOtherCountersAreRepeated(t *testing.T) {
	in(t, func(t *testing.T) {
		d := open(t, limited)
		keep := func(a store.Assignment) {
			d.store.mu.Lock()
			defer d.store.mu.Unlock()
			d.store.answer = func(u *store.Usage) (store.Assignment, error) {
				kept := a
				kept.Send = u.Fresh
				return kept, nil
			}
		}
		g := d.connect("edge-1")
		g.report(used("ann", 0, 1, 0))
		g.want("a share in Redis", "ann: 10, 20 per 1s, for 7s")
		for _, c := range []struct {
			what  string
			waits time.Duration
			store.Assignment
			usages, want string
		}{
			{"Redis goes away", time.Second, store.Assignment{Degraded: true, Rate: 400, Burst: 10, Lasts: 6000}, "report 1+0 after 0 s fresh\noccasion", "ann: 10, 40 per 1s, for 6s"},
			{"it stays away", time.Second, store.Assignment{Degraded: true, Rate: 400, Burst: 10, Lasts: 5000}, "occasion", ""},
			{"it comes back", time.Second, store.Assignment{Rate: 200, Burst: 10, Lasts: 5000}, "occasion", "ann: 10, 20 per 1s, for 5s"},
			{"it stays", 2 * time.Second, store.Assignment{Rate: 200, Burst: 10, Lasts: 3000}, "occasion\noccasion", ""},
			{"it goes away when the share is nearly over", time.Second, store.Assignment{Degraded: true, Rate: 400, Burst: 10, Lasts: 6000}, "occasion", ""},
			{"after that", time.Second, store.Assignment{Degraded: true, Rate: 400, Burst: 10, Lasts: 6000}, "occasion fresh", "ann: 10, 40 per 1s, for 6s"},
		} {
			keep(c.Assignment)
			pass(c.waits)
			wantUsages(t, d, c.what, c.usages)
			g.want(c.what, c.want)
		}
	})
}

// With the counters of this process, the share of the only Envoy follows its demand, up to the
// rate of the rule.
func TestSharesFollowTheDemand(t *testing.T) {
	in(t, func(t *testing.T) {
		d := open(t, limited)
		var last store.Assignment
		d.store.answer = func(u *store.Usage) (a store.Assignment, err error) {
			a, err = d.store.Store.Assign(t.Context(), u)
			last = a
			return a, err
		}
		g := d.connect("edge-1")
		g.report(used("ann", 0, 1, 0))
		if first := d.rlqs.Stats().Rate; first < 20 || first > 30 {
			t.Errorf("the first share is %v hits per second; want a quarter of the rate", first)
		}
		for range 4 {
			pass(5 * time.Second)
			rate := d.rlqs.Stats().Rate
			g.report(used("ann", 5, uint64(5*rate), uint64(5*(300-rate))))
		}
		if s := d.rlqs.Stats(); s.Rate < 90 || s.Rate > 125 || s.Lent < 0.9 {
			t.Errorf("the share is %v hits per second, %v of the rate; want nearly all of 100: %+v", s.Rate, s.Lent, last)
		}
	})
}

// A drain ends streams, and leaves the shares to the Envoys.
func TestDrainEndsStreams(t *testing.T) {
	in(t, func(t *testing.T) {
		d := open(t, limited)
		g := d.connect("edge-1")
		g.report(used("ann", 0, 1, 0))
		d.store.take()
		if err := d.server.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if g.code() != codes.Unavailable {
			t.Errorf("the stream ended with %v; want Unavailable", g.code())
		}
		wantUsages(t, d, "the drain", "")
	})
}
