// Package traffic keeps the numbers of decisions in each minute of the last hour, and
// sends events about it every second. It reads the counts that the metrics have anyway, so
// that callers do not wait for it. With Redis each instance writes the sums of its current
// minute there, and the hour covers all instances.
package traffic

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/koalagate/koalagate/internal/delay"
	"github.com/koalagate/koalagate/internal/fleet/minutes"
	"github.com/koalagate/koalagate/internal/loglimit"
)

// Options are the options of New. Totals is required.
type Options struct {
	// Totals returns the counts since the process started.
	Totals func() Totals
	// Shared are the minutes in Redis; nil without Redis.
	Shared *minutes.Records
	// Now is the clock by which minutes begin; nil for time.Now. Instances with the same
	// clock have the same minutes.
	Now func() time.Time
	// Logger receives faults of Redis. The default is slog.Default.
	Logger *slog.Logger
}

// Recorder keeps an hour of traffic, and sends events. It is safe for concurrent use.
type Recorder struct {
	Hub

	o      Options
	warner loglimit.Warner

	mu      sync.Mutex
	before  Totals
	sampled time.Time              // when before was read
	hour    [minutes.Kept]*current // by minute, the number modulo the length

	sharing sync.Mutex
	shared  *sharedHour // nil before the first question
}

// current is the traffic of a minute.
type current struct {
	minute int64
	Totals
}

const (
	sampleInterval = time.Second
	// writeInterval is the time between two writes of the current minute to Redis.
	writeInterval = 5 * time.Second
	// kind is the kind of the documents in Redis.
	kind = "traffic"
)

// New returns a recorder, which begins to record with Run.
func New(o Options) *Recorder {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Recorder{o: o, warner: loglimit.Warner{Logger: o.Logger}}
}

// Run records until ctx is done.
func (r *Recorder) Run(ctx context.Context) {
	var writer sync.WaitGroup
	defer writer.Wait()
	if r.o.Shared != nil {
		writer.Go(func() { minutes.Keep(ctx, writeInterval, r.o.Now, r.share) })
	}
	delay.Every(ctx, sampleInterval, nil, r.sample)
}

// sample adds to the current minute what was decided since the last sample, and sends the
// event about it.
func (r *Recorder) sample() {
	now, totals := r.o.Now(), r.o.Totals()
	r.mu.Lock()
	first := r.sampled.IsZero()
	fresh := totals.since(&r.before)
	span := now.Sub(r.sampled)
	r.before, r.sampled = totals, now
	r.of(minutes.Of(now)).add(&fresh)
	r.mu.Unlock()
	if !first {
		r.Send(EventDecisions, secondOf(now, span, &fresh))
	}
}

// of returns the traffic of a minute, which it begins if it is new. r.mu is held.
func (r *Recorder) of(minute int64) *current {
	place := &r.hour[minute%minutes.Kept]
	if *place == nil || (*place).minute != minute {
		*place = &current{minute, Totals{Rules: make(map[Rule]Counts)}}
	}
	return *place
}

// share writes a minute to Redis, if anything was decided in it.
func (r *Recorder) share(ctx context.Context, minute int64) {
	r.mu.Lock()
	var text []byte
	if m := r.hour[minute%minutes.Kept]; m != nil && m.minute == minute {
		text = encode(&m.Totals)
	}
	r.mu.Unlock()
	if text == nil {
		return
	}
	if err := r.o.Shared.Write(ctx, kind, minute, text); err != nil && ctx.Err() == nil {
		r.warner.Warn("other instances do not see the traffic of this one", "error", err)
	}
}
