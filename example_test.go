package koalagate_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/koalagate/koalagate"
	"github.com/koalagate/koalagate/engine"
)

// quiet drops the log of the examples.
var quiet = slog.New(slog.DiscardHandler)

// A user may write two comments in 60 seconds. The counters are in process.
func ExampleGate_Allow() {
	gate, err := koalagate.Open(koalagate.Options{
		Rules:  []string{"middleware/testdata/comments.conf"},
		Logger: quiet,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gate.Close()

	for range 3 {
		d, err := gate.Allow(context.Background(), map[string]string{"act": "comment", "uid": "ann"})
		if err != nil {
			fmt.Println(err)
			return
		}
		if d.Allowed() {
			fmt.Println("allowed,", d.Answers[0].Quota.Remaining, "left")
		} else {
			refusal := d.Refusal()
			fmt.Println("refused with", refusal.Status, "by rule", d.Answers[0].Decider.Return)
		}
	}
	// Output:
	// allowed, 1 left
	// allowed, 0 left
	// refused with 429 by rule 201
}

// Instances that share a Redis share their counters. Nothing listens at this
// address, so this process counts for itself.
func ExampleOpen_redis() {
	gate, err := koalagate.Open(koalagate.Options{
		Rules: []string{"middleware/testdata/comments.conf"},
		Redis: "redis://127.0.0.1:1/0",
		RedisOptions: koalagate.RedisOptions{
			Username: "koalagate",
			Password: "from a file or the environment",
			Budget:   50 * time.Millisecond,
		},
		RescueShare: 0.5, // two instances admit together what one Redis would
		Logger:      quiet,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gate.Close()

	d, err := gate.Allow(context.Background(), map[string]string{"act": "comment", "uid": "ann"})
	fmt.Println(d.Allowed(), d.Degraded, err)
	// Output: true true <nil>
}

// In observe mode everything is allowed, and the refusals are only reported. Modes
// may change while the program runs.
func ExampleOpen_observe() {
	modes := new(engine.Modes)
	modes.Set(map[string]engine.Mode{koalagate.Door: engine.ModeObserve})
	gate, err := koalagate.Open(koalagate.Options{
		Rules:  []string{"middleware/testdata/comments.conf"},
		Modes:  modes,
		Logger: quiet,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gate.Close()

	comment := map[string]string{"act": "comment", "uid": "ann"}
	for range 3 {
		d, _ := gate.Allow(context.Background(), comment)
		fmt.Println(d.Allowed(), d.Answers[0].DecisionWord())
	}
	modes.Set(map[string]engine.Mode{koalagate.Door: engine.ModeEnforce})
	d, _ := gate.Allow(context.Background(), comment)
	fmt.Println(d.Allowed(), d.Answers[0].DecisionWord())
	// Output:
	// true allow
	// true allow
	// true observed-deny
	// false deny
}
