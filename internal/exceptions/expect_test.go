package exceptions_test

import (
	"log/slog"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/exceptions"
	"github.com/koalagate/koalagate/rules"
)

// Rules that were expected have the exceptions of the instant at which they come into force,
// also if some have changed meanwhile, and so have rules that were not expected.
func TestExpectedRules(t *testing.T) {
	for name, expected := range map[string]bool{"expected": true, "not expected": false} {
		t.Run(name, func(t *testing.T) {
			k := exceptions.New(exceptions.Options{Logger: slog.New(slog.DiscardHandler)})
			set, next := parseRules(t, ruleText), parseRules(t, ruleText)
			k.Use(set)
			add := func(uid string) string {
				added, err := k.Add(t.Context(), []exceptions.Exception{exception(1, uid, exceptions.Deny)})
				if err != nil {
					t.Fatal(err)
				}
				return added[0].ID
			}
			add("stays")
			gone := add("goes")
			if expected {
				k.Expect(next)
			}
			add("comes")
			if _, err := k.Remove(t.Context(), gone); err != nil {
				t.Fatal(err)
			}
			k.Use(next)
			e := engine.New(next, engine.WithExceptions(k.Engine()))
			for uid, want := range map[string]rules.Verdict{"stays": rules.Deny, "comes": rules.Deny, "goes": rules.Allow, "other": rules.Allow} {
				d, err := e.Decide(t.Context(), &engine.Call{Op: engine.Take, Inputs: []engine.Input{{Params: rules.MakeParams(map[string]string{"act": "post", "uid": uid}), Hits: 1}}})
				if err != nil || d.Verdict != want {
					t.Errorf("%s: %v, %v; want %v", uid, d, err, want)
				}
			}
		})
	}
}
