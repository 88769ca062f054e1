package redis_test

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"
	_ "time/tzdata" // the dialogues do not depend on the machine's zones

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/store/storetest/machine"
)

// long selects the long form of the tests, which `make verify` runs.
var long = flag.Bool("long", false, "run the long form of the tests")

// dialogues sets the number of dialogues of a test, or the second number in the
// long form.
func dialogues(t *testing.T, short, longer int) {
	t.Helper()
	n := short
	if *long {
		n = longer
	}
	machine.Dialogues(t, n)
}

// TestRedisAnswersAsTheModel does the same with Redis. The plans bring their
// own clock, and Redis drops keys by its own: it is told to linger, so that a
// busy machine makes no difference.
func TestRedisAnswersAsTheModel(t *testing.T) {
	server := storetest.StartServer(t)
	n := 0
	storetest.InWays(t, storetest.Ways(*long), func(t *testing.T, way storetest.Way) {
		dialogues(t, 100, way.Of(10_000))
		told := int64(0)
		o := redis.Options{URL: server.URL(), Budget: time.Minute, Linger: time.Hour, Refusals: 1000}
		way.Set(&o)
		open := func() (store.Store, func()) {
			n++
			o.Prefix = fmt.Sprintf("m%d", n)
			r, err := redis.Open(o)
			if err != nil {
				t.Fatal(err)
			}
			return r, func() {
				told += r.Calls().Remembered
				server.CheckExpiries(t, o.Prefix)
				if err := r.Clear(context.Background()); err != nil {
					t.Error(err)
				}
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		machine.Compare(t, open)
		for more := 0; o.Refusals >= 0 && told == 0 && more < 10 && !t.Failed(); more++ {
			machine.Compare(t, open) // dialogues at random may have had none
		}
		if (told > 0) != (o.Refusals >= 0) {
			t.Errorf("%d refusals were told from memory", told)
		}
	})
	t.Run("on and off in turn", func(t *testing.T) {
		dialogues(t, 50, 10_000)
		in := server.OpenInTurn(t, func(o *redis.Options) { o.Linger = time.Hour })
		machine.Compare(t, func() (store.Store, func()) {
			return in, func() {
				server.CheckExpiries(t, in.Prefix)
				if err := in.Clear(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	})
}
