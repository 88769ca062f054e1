package pace

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Work with a pacing context pauses once a slice is over; other work never does.
func TestStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := func(ctx context.Context) time.Duration {
			begin := time.Now()
			if err := Step(ctx); err != nil {
				t.Error(err)
			}
			return time.Since(begin)
		}
		plain, paced := t.Context(), With(t.Context())
		for _, c := range []struct {
			name string
			ctx  context.Context
			work time.Duration
			want time.Duration
		}{
			{"a piece", paced, slice / 2, 0},
			{"the rest of the slice", paced, slice / 2, pause},
			{"a piece of the next slice", paced, slice / 2, 0},
			{"a long piece", paced, time.Hour, pause},
			{"without pauses", plain, time.Hour, 0},
		} {
			time.Sleep(c.work)
			if got := step(c.ctx); got != c.want {
				t.Errorf("%s: it paused for %v; want %v", c.name, got, c.want)
			}
		}
	})
}

// A context that has ended ends the work, without a pause.
func TestStepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, cancel := context.WithCancel(t.Context())
		paced := With(ended)
		cancel()
		time.Sleep(slice)
		begin := time.Now()
		for _, ctx := range []context.Context{ended, paced} {
			if err := Step(ctx); !errors.Is(err, context.Canceled) || time.Since(begin) > 0 {
				t.Errorf("%v after %v; want %v at once", err, time.Since(begin), context.Canceled)
			}
		}
	})
}

// The end of work is a pause, also for callers who have left, unless there was next to none.
func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name string
			ctx  func(context.Context) context.Context
			left bool
			work time.Duration
			want time.Duration
		}{
			{"a short piece", With, false, slice / 10, pause},
			{"a long piece", With, false, time.Hour, pause},
			{"of a caller who has left", With, true, slice, pause},
			{"next to no work", With, false, slice/10 - 1, 0},
			{"without pauses", func(ctx context.Context) context.Context { return ctx }, false, time.Hour, 0},
		} {
			ctx, leave := context.WithCancel(t.Context())
			ctx = c.ctx(ctx)
			if c.left {
				leave()
			}
			time.Sleep(c.work)
			begin := time.Now()
			Rest(ctx)
			if got := time.Since(begin); got != c.want {
				t.Errorf("%s: it paused for %v; want %v", c.name, got, c.want)
			}
			leave()
		}
	})
}
