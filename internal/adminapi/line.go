package adminapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/koalagate/koalagate/internal/pace"
)

// work is how much a route takes of the processor.
type work uint8

const (
	light   work = iota // some milliseconds at most
	lengthy             // seconds: it needs the place
	brief               // tens of milliseconds: it needs a place of its own kind
	byBody              // seconds if its body is longer than smallBody
)

const (
	// smallBody is the maximum size of a body that takes some milliseconds, in bytes.
	smallBody = 64 << 10
	// maxReaderBody is the maximum size of a body without the token for changes, in bytes.
	maxReaderBody = 4 << 20
	// readerWait and changerWait are the times for which callers wait for the place: without
	// and with the token for changes.
	readerWait, changerWait = 2 * time.Second, 5 * time.Second
	// readerTime and changerTime are the times for which they may have it.
	readerTime, changerTime = 30 * time.Second, 110 * time.Second
)

// errTooLong is the cause of the end of a request that has had the place for too long.
var errTooLong = errors.New("it took too long beside the decisions; ask for less")

// answer answers a request of a route: beside decisions and in its turn, if it takes long.
func (s *server) answer(one *route, w http.ResponseWriter, r *http.Request) error {
	if one.work == light || one.work == byBody && r.ContentLength >= 0 && r.ContentLength <= smallBody {
		return paced(r.Context(), s, one, w, r)
	}
	of := s.line
	if one.work == brief {
		of = s.brief
	}
	wait, most := readerWait, readerTime
	if s.mayChange(r) {
		wait, most = changerWait, changerTime
	}
	free := of.Take(r.Context(), wait)
	if free == nil {
		w.Header().Set("Connection", "close") // the body may be large
		w.Header().Set("Retry-After", pace.RetryAfter)
		return problem(http.StatusTooManyRequests, "another question or change of its kind is being answered; try again in %s s", pace.RetryAfter)
	}
	defer free()
	ctx, cancel := context.WithTimeoutCause(r.Context(), most, errTooLong)
	defer cancel()
	err := paced(ctx, s, one, w, r)
	if err != nil && errors.Is(context.Cause(ctx), errTooLong) {
		return problem(http.StatusServiceUnavailable, "%v", errTooLong)
	}
	return err
}

// paced answers a request with pauses, the last of which is after the answer.
func paced(ctx context.Context, s *server, one *route, w http.ResponseWriter, r *http.Request) error {
	ctx = pace.With(ctx)
	defer pace.Rest(ctx)
	return one.answer(s, w, r.WithContext(ctx))
}
