package pace

import (
	"context"
	"net/http"
	"time"

	"github.com/koalagate/koalagate/internal/delay"
)

const (
	// patience is the time for which a page waits for its place.
	patience = 2 * time.Second
	// PageTime is the time for which a page of monitoring may have its place.
	PageTime = 10 * time.Second
	// sendTime is the time after that in which its caller must have read the answer.
	sendTime = 5 * time.Second
	// turn is the time for which Go's scheduler lets a goroutine compute while others wait. A page
	// that takes longer is mostly the work of a library, which calls no Step, and delays decisions
	// by several turns. Then the place rests for restTimes as long, maxRest at most, so that hardly
	// one decision in a hundred meets such a page, however many callers ask.
	turn      = 10 * time.Millisecond
	restTimes = 20
	maxRest   = time.Second
	// RetryAfter is when a caller who did not get a place should try again, in seconds.
	RetryAfter = "2"
)

// Line gives one place at a time to work that takes long, so that many callers take no more of the
// processor and the memory than one.
type Line struct {
	place  chan struct{}
	rested time.Time // when the next page may begin; whoever has the place uses it
}

// NewLine returns a line whose place is free.
func NewLine() *Line { return &Line{place: make(chan struct{}, 1)} }

// Take waits for the place, and returns the function that frees it, nil if ctx ends or the
// wait is over before.
func (l *Line) Take(ctx context.Context, wait time.Duration) (free func()) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	select {
	case l.place <- struct{}{}:
		return func() { <-l.place }
	case <-ctx.Done():
		return nil
	}
}

// page takes the place for a page, and returns the function that frees it; nil if the place is
// taken, or rests, for longer than patience.
func (l *Line) page(ctx context.Context) (free func()) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	leave := l.Take(ctx, patience)
	if leave == nil {
		return nil
	}
	if rest := time.Until(l.rested); rest > 0 && !delay.Wait(ctx, rest) {
		leave()
		return nil
	}
	begin := time.Now()
	return func() {
		if took := time.Since(begin); took > turn {
			l.rested = time.Now().Add(min(restTimes*took, maxRest))
		}
		leave()
	}
}

// Pages returns a handler of pages that have the place while they answer, for most at the longest,
// and rest afterwards. Callers who do not get the place get 429 with Retry-After.
func (l *Line) Pages(most time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		free := l.page(r.Context())
		if free == nil {
			w.Header().Set("Retry-After", RetryAfter)
			http.Error(w, "another caller is reading a page of this kind; try again in "+RetryAfter+" s", http.StatusTooManyRequests)
			return
		}
		defer free()
		ctx, cancel := context.WithTimeout(With(r.Context()), most)
		defer cancel()
		defer Rest(ctx)
		// An error means that the writer is in memory, which nothing delays.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(most + sendTime))
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
