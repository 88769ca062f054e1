package pace

import (
	"context"
	"net/http"
	"time"
)

const (
	// patience is the time for which a page waits for its place.
	patience = 2 * time.Second
	// PageTime is the time for which a page of monitoring may have its place.
	PageTime = 10 * time.Second
	// sendTime is the time after that in which its caller must have read the answer.
	sendTime = 5 * time.Second
	// RetryAfter is when a caller who did not get a place should try again, in seconds.
	RetryAfter = "2"
)

// Line gives one place at a time to work that takes long, so that many callers take no more of the
// processor and the memory than one.
type Line struct{ place chan struct{} }

// NewLine returns a line whose place is free.
func NewLine() *Line { return &Line{make(chan struct{}, 1)} }

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

// Pages returns a handler of pages that have the place while they answer, for most at the longest,
// and rest afterwards. Callers who do not get the place get 429 with Retry-After.
func (l *Line) Pages(most time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		free := l.Take(r.Context(), patience)
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
