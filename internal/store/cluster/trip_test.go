package cluster

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// TestCallsThatWaitForTheSlotMapShareATrip checks that calls which wait in vain for
// one refresh of the slot map report one trip: together they are one failure.
func TestCallsThatWaitForTheSlotMapShareATrip(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // it accepts connections and does not answer
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	r, err := Open(redis.Options{URL: "redis-cluster://" + silent.Addr().String(), Budget: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	one := []store.Rule{{Subject: []byte("a"), Method: store.Count, Time: 60, Count: 9, Weight: 1}}
	two := append(one, store.Rule{Subject: []byte("b"), Method: store.Count, Time: 60, Count: 9, Weight: 1})
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var callers sync.WaitGroup
	for i, rules := range [][]store.Rule{one, two, one, two} {
		callers.Go(func() {
			attempt, err := r.Try(ctx, &store.Plan{Op: store.Take, Zone: time.UTC, Sets: []store.Set{{Allows: true, Rules: rules}}}, new(store.Answers))
			if !redisconn.TimedOut(err) || attempt.Trip != 1 {
				t.Errorf("call %d: %v, trip %d; want a timeout, trip 1", i, err, attempt.Trip)
			}
		})
	}
	callers.Wait()
}

// ended is a context whose deadline passes when its channel is closed.
type ended struct {
	context.Context
	done chan struct{}
}

func (e ended) Done() <-chan struct{} { return e.done }

func (e ended) Err() error { return context.DeadlineExceeded }

// TestTimeoutOfAGiveBackIsTheFaultOfItsNode checks that the error of a caller whose
// time ends while a node gives back concerns only that node.
func TestTimeoutOfAGiveBackIsTheFaultOfItsNode(t *testing.T) {
	parts := []*part{{slot: 1}, {slot: 2}}
	done := make(chan *part)
	over := ended{context.Background(), make(chan struct{})}
	go func() {
		done <- parts[0]
		close(over.done) // once only the other part is missing
	}()
	err := wait(over, done, parts)
	if !ofOneNode(err) || !redisconn.TimedOut(err) {
		t.Fatalf("%v; want a timeout of one node", err)
	}
	if want := "node of slot 2: redis: give back before the take is repeated: context deadline exceeded"; err.Error() != want {
		t.Errorf("the error is %q; want %q", err, want)
	}
}
