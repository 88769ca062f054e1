package exceptions_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/koalagate/koalagate/internal/exceptions"
)

// A keeper without Redis looks at the clock only while it has exceptions, and then learns of the
// end of a ban within a second.
func TestKeeperRestsWithoutExceptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		var ended []time.Time
		k := exceptions.New(exceptions.Options{
			Now:   func() time.Time { looks++; return time.Now() },
			Ended: func(context.Context, *exceptions.Exception) error { ended = append(ended, time.Now()); return nil },
		})
		k.Use(parseRules(t, declaredRules))
		go k.Run(t.Context())
		rests := func() {
			t.Helper()
			synctest.Wait()
			before := looks
			time.Sleep(time.Hour)
			synctest.Wait()
			if looks != before {
				t.Errorf("it has looked at the clock %d times in an hour without exceptions", looks-before)
			}
		}
		rests()
		x := ban(map[string]string{"uid": "ann"})
		x.Until = time.Now().Add(10 * time.Minute)
		if _, err := k.Add(t.Context(), []exceptions.Exception{x}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		if len(ended) != 1 || ended[0].Before(x.Until) || ended[0].Sub(x.Until) > 1100*time.Millisecond {
			t.Errorf("it has learned of the end at %v; want a second after %v", ended, x.Until)
		}
		rests()
	})
}
