package redis_test

import (
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/internal/store/storetest/machine"
)

// TestSharesInRedisExceedNoLimit lets gateways share limits in Redis with each other and with
// single hits, and compares each assignment with the one of the in-process store.
func TestSharesInRedisExceedNoLimit(t *testing.T) {
	dialogues(t, 60, 10_000)
	s := storetest.StartServer(t).Open(t, func(o *redis.Options) { o.Linger = time.Hour; o.Refusals = -1 })
	n := 0
	assigned := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		m := memory.New(memory.Options{})
		defer m.Close()
		f := machine.ShareDialogue(rt, &machine.Twin{Sharer: s, Other: m, Fail: rt.Fatalf}, now, strconv.Itoa(n))
		assigned += f.Assigned
	})
	t.Logf("%d dialogues with %d assignments", n, assigned)
}
