package redis_test

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"
	_ "time/tzdata" // so that dialogues do not depend on the zones of the machine

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/store/storetest/machine"
)

// long selects the long form of the tests, which `make verify` runs.
var long = flag.Bool("long", false, "run the long form of the tests")

// dialogues sets the number of dialogues of a test: short, or longer in the long
// form.
func dialogues(t *testing.T, short, longer int) {
	t.Helper()
	n := short
	if *long {
		n = longer
	}
	machine.Dialogues(t, n)
}

// TestRedisAnswersAsTheModel compares the answers to random plans with those of the
// model. The plans have clocks of their own, while Redis drops keys by its clock: a
// long linger keeps the keys even if the machine is busy.
func TestRedisAnswersAsTheModel(t *testing.T) {
	server := storetest.StartServer(t)
	n := 0
	storetest.InWays(t, storetest.Ways(*long), func(t *testing.T, way storetest.Way) {
		dialogues(t, 230, way.Of(10_000))
		remembered := int64(0)
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
				remembered += r.Calls().Remembered
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
		for more := 0; o.Refusals >= 0 && remembered == 0 && more < 10 && !t.Failed(); more++ {
			machine.Compare(t, open) // random dialogues may lack one
		}
		if (remembered > 0) != (o.Refusals >= 0) {
			t.Errorf("%d refusals were answered from memory", remembered)
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
