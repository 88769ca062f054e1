package fleet

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store/storetest"
)

// Whoever can write to Redis can forge the reports and the counts of a trial, and so end it:
// SECURITY.md says so. What instances read of them is bounded, and no version comes into
// force by them.
func TestForgedTrialReports(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t)
	client := server.Client()
	defer client.Close()
	r := openRecords(t, server.URL())
	var a tried
	one := startInstance(t, r, func(o *MemberOptions) { o.Try = a.try })
	livingInstances(t, r, 1)
	m, contents := bundle(1)
	inForce := mustPublish(t, r, m, contents)
	eventually(t, "the first version", func() bool { return one.version() == inForce })
	number := mustTry(t, r, 2, TrialOptions{Length: time.Hour, Then: "keep", AbortAbove: 50})
	eventually(t, "the trial", func() bool { return a.Load() == number })
	k := keysOf(prefix)
	reports, counts := k.begin+"reports", k.begin+"counts"

	// Reports of a million bytes, of names of any length, and a thousand large ones.
	client.HSet(t.Context(), reports, "long", strings.Repeat("x", 1<<20), strings.Repeat("n", 1<<10), "{}")
	for i := range 400 {
		client.HSet(t.Context(), reports, strconv.Itoa(i), strings.Repeat("x", MaxReport))
	}
	got := lastTrial(t, r)
	size := 0
	for _, text := range got.Reports {
		size += len(text)
	}
	if size > maxReportBytes || len(got.Reports) > maxReports || len(got.Reports) < 200 {
		t.Errorf("%d reports of %d bytes", len(got.Reports), size)
	}
	client.Del(t.Context(), reports)

	// Names and values of counts without end do not last, and what is no number is 0.
	pipe := client.Pipeline()
	for i := range 30_000 {
		pipe.HSet(t.Context(), counts, fmt.Sprintf("requests:forged%d", i), "9007199254740991")
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	tally := func(requests, refused int64) {
		t.Helper()
		if err := one.WriteTally(t.Context(), &Tally{Number: number, Requests: requests, NewlyRefused: refused, Report: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	tally(2000, 900)
	if n := client.HLen(t.Context(), counts).Val(); n != 2 {
		t.Errorf("%d counts are kept; want those of the instance", n)
	}
	client.HSet(t.Context(), counts, "refused:x", "nan", "refused:y", "-5", "refused:z", "1e400", "requests:x", "\x1b[2J", "other", strings.Repeat("9", 1000))
	tally(2000, 900)
	if got := lastTrial(t, r); got.State != "running" {
		t.Errorf("%+v; want it to run", got)
	}

	// A forged count ends it, and changes nothing else.
	client.HSet(t.Context(), counts, "refused:x", "9007199254740991")
	tally(2000, 900)
	if got := lastTrial(t, r); got.State != "aborted" || len(got.Detail) > 200 {
		t.Errorf("%+v; want it aborted", got)
	}
	eventually(t, "the end", func() bool { return a.Load() == 0 })
	if one.version() != inForce {
		t.Errorf("version %d is in force; want %d", one.version(), inForce)
	}

	// The words of a state are the known ones.
	client.HSet(t.Context(), k.trial, "state", "\x1b[2J", "follow", "\x1b[2J", "until", "nan", "began", "-1", "abort", "inf")
	if got := lastTrial(t, r); got.State != "ended" || got.Then != "" || got.AbortAbove != 0 {
		t.Errorf("%+v; want known words", got)
	}
}
