package koalagate_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/koalagate/koalagate"
	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/rules"
)

// RedisOptions say of Redis what its URL does not. Nothing listens here, and so
// this process counts for itself.
func ExampleOpen_redis() {
	gate, err := koalagate.Open(koalagate.Options{
		Rules: []string{"middleware/testdata/comments.conf"},
		Redis: "redis://127.0.0.1:1/0",
		RedisOptions: store.RedisOptions{
			Username: "koalagate",
			Password: "from a file or the environment",
			Budget:   50 * time.Millisecond,
		},
		RescueShare: 0.5, // of two instances
		Logger:      slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gate.Close()

	params := new(rules.Params)
	params.Set("act", "comment")
	params.Set("uid", "ann")
	d, err := gate.Engine().Decide(context.Background(), &engine.Call{Op: engine.Take, Inputs: []engine.Input{{Params: params, Hits: 1}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.Verdict == rules.Allow, d.Degraded)
	// Output: true true
}
