// Package pace lets long work of operators, and reloads, go on beside decisions, also on one
// processor: in slices of 0.2 ms, between which the processor is free.
//
// A goroutine that computes without a pause keeps Go's scheduler from looking for calls that
// have arrived, for up to 10 ms each time if it has one processor. runtime.Gosched does not
// help: without other goroutines that are ready, the same one goes on at once.
package pace

import (
	"context"
	"io"
	"time"

	"github.com/koalagate/koalagate/internal/delay"
)

const (
	// slice is the time of work between two pauses. A call of decisions waits for about two
	// slices: when it arrives, and when Redis has answered.
	slice = 200 * time.Microsecond
	// pause is the time between two slices: the shortest one that Go's scheduler waits for
	// calls.
	pause = time.Millisecond
)

// pacer measures the slices of one goroutine.
type pacer struct{ began time.Time }

type key struct{}

// With returns a context for work that pauses in Step. It is for one goroutine.
func With(ctx context.Context) context.Context {
	return context.WithValue(ctx, key{}, &pacer{time.Now()})
}

// Rest pauses at the end of work that has begun a slice, even a short one: what waits for its
// turn would otherwise follow at once, and many short pieces of work would keep the scheduler from
// looking for calls as one long piece does. It also pauses if the context has ended.
func Rest(ctx context.Context) {
	if p, ok := ctx.Value(key{}).(*pacer); ok && time.Since(p.began) >= slice/10 {
		delay.Wait(context.WithoutCancel(ctx), pause)
		p.began = time.Now()
	}
}

// Pauses returns a function that calls Step and reports whether the work goes on. It is nil if
// the context is not one of With.
func Pauses(ctx context.Context) func() bool {
	if _, ok := ctx.Value(key{}).(*pacer); !ok {
		return nil
	}
	return func() bool { return Step(ctx) == nil }
}

// Reader returns a reader that calls Step before each read.
func Reader(ctx context.Context, from io.Reader) io.Reader { return reader{ctx, from} }

type reader struct {
	ctx  context.Context
	from io.Reader
}

func (r reader) Read(b []byte) (int, error) {
	if err := Step(r.ctx); err != nil {
		return 0, err
	}
	return r.from.Read(b)
}

// Step is called between pieces of work that take some microseconds each. It returns the
// error of a context that has ended. If the context is one of With, it pauses when a slice is
// over.
func Step(ctx context.Context) error {
	if p, ok := ctx.Value(key{}).(*pacer); ok && time.Since(p.began) >= slice {
		delay.Wait(ctx, pause)
		p.began = time.Now()
	}
	return ctx.Err()
}
