package minutes

import (
	"context"
	"time"

	"github.com/koalagate/koalagate/internal/delay"
)

// endTimeout bounds the last call of Keep.
const endTimeout = 500 * time.Millisecond

// Of returns the minute of a time, counted from the epoch.
func Of(t time.Time) int64 { return t.Unix() / 60 }

// Keep calls share with the current minute at once and after every interval until ctx is done, with each
// minute once more when it is over, and with the last one at the end.
func Keep(ctx context.Context, interval time.Duration, now func() time.Time, share func(ctx context.Context, minute int64)) {
	last := Of(now())
	delay.Every(ctx, interval, nil, func() {
		if current := Of(now()); current != last {
			share(ctx, last)
			last = current
		}
		share(ctx, last)
	})
	// The end of an instance does not wait long for Redis.
	final, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	share(final, last)
}
