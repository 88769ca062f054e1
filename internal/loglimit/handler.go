package loglimit

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Handler drops records beyond a number per second, so that no flood of records can fill
// a disk or delay callers. It is safe for concurrent use.
type Handler struct {
	next  slog.Handler
	lines *budget // of all handlers that WithAttrs and WithGroup derive
}

// burst is the number of seconds whose records may arrive at once.
const burst = 10

// budget counts the records of a Handler and those derived from it.
type budget struct {
	rate    float64
	dropped func()
	warn    slog.Handler // without attributes and groups

	mu      sync.Mutex
	used    float64
	at      time.Time // of the last record
	omitted int       // records dropped since the last one that was logged
}

// NewHandler returns a handler that passes at most perSecond records per second to next,
// on average over ten seconds, and calls dropped for each other record. The first record
// after dropped ones is preceded by one with their number.
func NewHandler(next slog.Handler, perSecond int, dropped func()) *Handler {
	return &Handler{next: next, lines: &budget{rate: float64(perSecond), dropped: dropped, warn: next}}
}

// take counts a record. It reports whether the record may be logged, and the number of
// records that were dropped before it.
func (b *budget) take() (omitted int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.used = max(0, b.used-now.Sub(b.at).Seconds()*b.rate)
	b.at = now
	if b.used+1 > burst*b.rate {
		b.omitted++
		return 0, false
	}
	b.used++
	omitted, b.omitted = b.omitted, 0
	return omitted, true
}

// Enabled reports whether records of a level are logged.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle logs a record, or drops it.
func (h *Handler) Handle(ctx context.Context, record slog.Record) error {
	omitted, ok := h.lines.take()
	if !ok {
		h.lines.dropped()
		return nil
	}
	if omitted > 0 {
		notice := slog.NewRecord(record.Time, slog.LevelWarn, "log lines were dropped", 0)
		notice.AddAttrs(slog.Int("lines", omitted))
		if err := h.lines.warn.Handle(ctx, notice); err != nil {
			return err
		}
	}
	return h.next.Handle(ctx, record)
}

// WithAttrs returns a handler with attributes that shares the number of records.
func (h *Handler) WithAttrs(attributes []slog.Attr) slog.Handler {
	return &Handler{next: h.next.WithAttrs(attributes), lines: h.lines}
}

// WithGroup returns a handler with a group that shares the number of records.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{next: h.next.WithGroup(name), lines: h.lines}
}
