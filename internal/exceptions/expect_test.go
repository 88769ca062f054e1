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

// Rules that are forgotten leave what was prepared for others.
func TestForgottenRules(t *testing.T) {
	resolved := 0
	limits := func(path string, values map[string]string) (rules.Match, map[string]string, error) {
		resolved++
		return rules.Match{Rule: new(rules.Rule), Identity: []byte(path)}, values, nil
	}
	k := exceptions.New(exceptions.Options{Logger: slog.New(slog.DiscardHandler), Limits: limits})
	set, next, other := parseRules(t, ruleText), parseRules(t, ruleText), parseRules(t, ruleText)
	k.Use(set)
	x := exception(0, "ann", exceptions.Allow)
	x.Limit = "d.k"
	if _, err := k.Add(t.Context(), []exceptions.Exception{x}); err != nil {
		t.Fatal(err)
	}
	k.Expect(next)
	before := resolved
	k.Forget(other)
	if k.Use(next); resolved != before {
		t.Errorf("resolved %d times again at the instant of the rules", resolved-before)
	}
	k.Expect(other)
	k.Forget(other)
	before = resolved
	if k.Use(other); resolved == before {
		t.Error("forgotten rules were prepared")
	}
}
