package fleet

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store/storetest"
)

// tried is the version that an instance tries, 0 for none.
type tried struct{ atomic.Uint64 }

func (n *tried) try(v *Tried) {
	if v == nil {
		n.Store(0)
		return
	}
	n.Store(v.Number)
}

// mustTry begins a trial and returns its number.
func mustTry(t *testing.T, r *Records, limit int, o TrialOptions) uint64 {
	t.Helper()
	number := mustPropose(t, r, limit, func(p *Proposal) { p.Trial = &o })
	if got := outcome(t, r, number); got.State != "trial" {
		t.Fatalf("the trial of version %d is %s: %s", number, got.State, got.Detail)
	}
	return number
}

func lastTrial(t *testing.T, r *Records) *Trial {
	t.Helper()
	got, err := r.Trial(t.Context())
	if err != nil || got == nil {
		t.Fatal(got, err)
	}
	return got
}

// A trial runs at all instances and leaves the version in force alone, until it is
// stopped, its condition aborts it, or a publish ends it.
func TestTrialsOfVersions(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t)
	r := openRecords(t, server.URL())
	if got, err := r.Trial(t.Context()); got != nil || err != nil {
		t.Fatal(got, err)
	}
	var a, b tried
	one := startInstance(t, r, func(o *MemberOptions) { o.Try = a.try })
	other := startInstance(t, r, func(o *MemberOptions) { o.Try = b.try })
	livingInstances(t, r, 2)
	m, contents := bundle(1)
	inForce := mustPublish(t, r, m, contents)
	eventually(t, "both have the first version", func() bool { return one.version() == inForce && other.version() == inForce })
	both := func(number uint64) {
		t.Helper()
		eventually(t, fmt.Sprintf("both instances try version %d", number), func() bool { return a.Load() == number && b.Load() == number })
	}

	number := mustTry(t, r, 2, TrialOptions{Length: time.Hour, Then: "keep"})
	both(number)
	if one.version() != inForce || other.version() != inForce {
		t.Error("a trial changed the version in force")
	}
	if stopped, err := r.StopTrial(t.Context(), "enough"); !stopped || err != nil {
		t.Fatal(stopped, err)
	}
	both(0)
	if got := lastTrial(t, r); got.State != "ended" || got.Detail != "enough" || got.Number != number {
		t.Errorf("%+v", got)
	}
	if stopped, err := r.StopTrial(t.Context(), "again"); stopped || err != nil {
		t.Error(stopped, err)
	}

	// Tallies of both instances count together; those of another trial do not count.
	number = mustTry(t, r, 3, TrialOptions{Length: time.Hour, Then: "enforce", AbortAbove: 2.5})
	both(number)
	write := func(i *instance, version uint64, requests, refused int64) {
		t.Helper()
		if err := i.WriteTally(t.Context(), &Tally{Number: version, Requests: requests, NewlyRefused: refused, Report: fmt.Appendf(nil, `{"requests":%d}`, requests)}); err != nil {
			t.Fatal(err)
		}
	}
	write(one, number-1, 5000, 5000)
	write(one, number, 900, 900) // too few
	write(other, number, 40_000, 122)
	write(one, number, 900, 900) // again: it replaces the first; 1022 of 40900 are 2.499 %
	if got := lastTrial(t, r); got.State != "running" || len(got.Reports) != 2 || got.AbortAbove != 2.5 {
		t.Fatalf("%+v", got)
	}
	write(one, number, 900, 1000)
	both(0)
	if got := lastTrial(t, r); got.State != "aborted" || got.Detail != "1122 of 40900 requests would be newly refused, more than 2.5 %" {
		t.Errorf("%+v", got)
	}
	if one.version() != inForce {
		t.Error("an aborted version is in force")
	}

	number = mustTry(t, r, 4, TrialOptions{Length: time.Hour, Then: "enforce"})
	both(number)
	m, contents = bundle(5)
	next := mustPublish(t, r, m, contents)
	both(0)
	if got := lastTrial(t, r); got.State != "ended" || got.Detail != fmt.Sprintf("version %d was published", next) || len(got.Reports) != 0 {
		t.Errorf("%+v", got)
	}
}

// At the end of a trial its version comes into force by itself, or waits.
func TestEndsOfTrials(t *testing.T) {
	t.Parallel()
	for then, want := range map[string]string{
		"enforce": "its time was over; its publish is in_force",
		"keep":    "its time was over",
		"ask":     "its time was over: koalagate publish --tried brings it into force",
	} {
		t.Run(then, func(t *testing.T) {
			t.Parallel()
			server := storetest.StartServer(t)
			r := openRecords(t, server.URL())
			one := startInstance(t, r)
			livingInstances(t, r, 1)
			m, contents := bundle(1)
			inForce := mustPublish(t, r, m, contents)
			eventually(t, "the first version", func() bool { return one.version() == inForce })
			number := mustPropose(t, r, 2, func(p *Proposal) { p.Trial = &TrialOptions{Length: time.Second, Then: then} })
			eventually(t, "the end: "+want, func() bool {
				last, err := r.Trial(t.Context())
				return err == nil && last != nil && last.Detail == want
			})
			if then == "enforce" {
				eventually(t, "the version is in force", func() bool { return one.version() == number })
			} else if one.version() != inForce {
				t.Errorf("version %d is in force, want %d", one.version(), inForce)
			}
		})
	}
}
