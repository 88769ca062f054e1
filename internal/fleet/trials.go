package fleet

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// Trial is the last trial of a version.
type Trial struct {
	Number uint64
	State  string // running, ended or aborted
	Detail string // why it ended; it may be hostile
	Began  time.Time
	Until  time.Time // its planned end
	// Then and AbortAbove are as in TrialOptions.
	Then       string
	AbortAbove float64
	// Reports come from the instances; TrialHead leaves them out. They may be hostile, like all
	// that Redis holds.
	Reports [][]byte
}

// Tally has the counts of a trial at an instance since it began there.
type Tally struct {
	Number                 uint64 // of the version
	Requests, NewlyRefused int64
	Report                 []byte // at most MaxReport bytes
}

// MaxReport is the maximum size of the report of an instance, in bytes.
const MaxReport = 256 << 10

// WriteTally replaces the tally of the instance with an id. It ends the trial if too many
// requests would be newly refused. It does nothing if another version is on trial.
func (r *Records) WriteTally(ctx context.Context, id string, t *Tally) error {
	ctx, cancel := redisconn.Call(ctx, r.client)
	defer cancel()
	if err := writeTally().Run(ctx, r.client, r.keys.all(), r.keys.arguments(t.Number, id, t.Requests, t.NewlyRefused, t.Report)...).Err(); err != nil {
		return unavailable(err)
	}
	return nil
}

// TrialHead returns the last trial without the reports of the instances, nil if there was none
// within the last day.
func (r *Records) TrialHead(ctx context.Context) (*Trial, error) {
	ctx, cancel := redisconn.Call(ctx, r.client)
	defer cancel()
	reply, err := readTrial().Run(ctx, r.client, r.keys.all(), r.keys.arguments()...).StringSlice()
	if err != nil {
		return nil, unavailable(err)
	}
	return trialOf(reply)
}

// Trial is TrialHead with the reports of all instances, which may be 64 MB.
func (r *Records) Trial(ctx context.Context) (*Trial, error) {
	t, err := r.TrialHead(ctx)
	if t == nil || err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, reportsTimes*redisconn.CallTimeout(r.client))
	defer cancel()
	scan := redisconn.HashScan{Key: r.keys.begin + "reports", Page: 4, MaxBytes: MaxReport, Timeout: redisconn.CallTimeout(r.client)} // a page is at most 1 MB
	seen, size := make(map[string]bool), 0
	for report, err := range scan.Fields(ctx, r.client) {
		if err != nil {
			return nil, unavailable(err)
		}
		if len(report.Name) > maxID || seen[report.Name] { // a scan may return a field twice
			continue
		}
		if size += len(report.Value); size > maxReportBytes {
			break
		}
		seen[report.Name] = true
		if t.Reports = append(t.Reports, []byte(report.Value)); len(t.Reports) >= maxReports {
			break
		}
	}
	return t, nil
}

const (
	// maxReports and maxReportBytes bound the reports that are read, and maxID the ids of
	// their instances. So many take more than one call, and reportsTimes as long for all of them.
	maxReports     = 1000
	maxReportBytes = 64 << 20
	maxID          = 64
	reportsTimes   = 5
)

// trialOf reads the reply of trial.lua; nil if there is no trial.
func trialOf(h []string) (*Trial, error) {
	if len(h) != 7 {
		return nil, fmt.Errorf("a trial has a reply of %d parts; want 7", len(h))
	}
	t := &Trial{Number: numberOf(h[0]), State: h[1], Detail: h[2], Began: millis(h[3]), Until: millis(h[4]), Then: h[5]}
	if t.Number == 0 {
		return nil, nil
	}
	if t.State != trialRunning && t.State != "aborted" { // whatever else the key has
		t.State = "ended"
	}
	if !isSequel(t.Then) {
		t.Then = ""
	}
	if share, err := strconv.ParseFloat(h[6], 64); err == nil && share >= 0 && share <= 100 { // "" is 0: never
		t.AbortAbove = share
	}
	return t, nil
}

// StopTrial ends the running trial and reports whether one ran. The version in force
// stays.
func (r *Records) StopTrial(ctx context.Context, why string) (bool, error) {
	ctx, cancel := redisconn.Call(ctx, r.client)
	defer cancel()
	stopped, err := stopTrial().Run(ctx, r.client, r.keys.all(), r.keys.arguments(why)...).Int()
	if err != nil {
		return false, unavailable(err)
	}
	return stopped == 1, nil
}

// WriteTally replaces the tally of this instance.
func (m *Member) WriteTally(ctx context.Context, t *Tally) error {
	return m.o.Records.WriteTally(ctx, m.id, t)
}
