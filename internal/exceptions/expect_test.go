package exceptions_test

import (
	"context"
	"log/slog"
	"strconv"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/exceptions"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/wiring"
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
				k.Expect(t.Context(), next)
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

// keeperOfALimit returns a keeper with an exception from an imported limit.
func keeperOfALimit(t *testing.T, limits exceptions.Limits) *exceptions.Keeper {
	t.Helper()
	k := exceptions.New(exceptions.Options{Logger: slog.New(slog.DiscardHandler), Limits: limits})
	k.Use(parseRules(t, ruleText))
	x := exception(0, "ann", exceptions.Allow)
	x.Limit = "d.k"
	if _, err := k.Add(t.Context(), []exceptions.Exception{x}); err != nil {
		t.Fatal(err)
	}
	return k
}

// Rules that are forgotten leave what was prepared for others.
func TestForgottenRules(t *testing.T) {
	resolved := 0
	limits := func(path string, values map[string]string) (rules.Match, map[string]string, error) {
		resolved++
		return rules.Match{Rule: new(rules.Rule), Identity: []byte(path)}, values, nil
	}
	k := keeperOfALimit(t, limits)
	next, other := parseRules(t, ruleText), parseRules(t, ruleText)
	k.Expect(t.Context(), next)
	before := resolved
	k.Forget(other)
	if k.Use(next); resolved != before {
		t.Errorf("resolved %d times again at the instant of the rules", resolved-before)
	}
	k.Expect(t.Context(), other)
	k.Forget(other)
	before = resolved
	if k.Use(other); resolved == before {
		t.Error("forgotten rules were prepared")
	}
}

// Limits that change after rules were made ready for exceptions hold once the rules are in force.
func TestLimitsChangeBeforeExpectedRules(t *testing.T) {
	limit, unit := &rules.Rule{Method: rules.Count, Result: &rules.Result{RetType: 2}}, "minute"
	limits := func(_ string, values map[string]string) (rules.Match, map[string]string, error) {
		return rules.Match{Rule: limit, Identity: []byte(unit)}, values, nil
	}
	k, next := keeperOfALimit(t, limits), parseRules(t, ruleText)
	k.Expect(t.Context(), next)
	unit = "hour"
	k.UseLimits()
	k.Use(next)
	store := memory.New(memory.Options{})
	defer store.Close()
	e := engine.New(next, engine.WithExceptions(k.Engine()), wiring.CountIn(store))
	for name, want := range map[string]bool{"minute": false, "hour": true} {
		if found := e.Exception(&rules.Match{Rule: limit, Identity: []byte(name)}) != nil; found != want {
			t.Errorf("the limit per %s has its exception: %v; want %v", name, found, want)
		}
	}
}

// Questions and changes do not wait while exceptions are made ready for new rules, and changes
// meanwhile are in force by them.
func TestNewRulesHoldUpNothing(t *testing.T) {
	for name, renew := range map[string]func(k *exceptions.Keeper, next *rules.Set){
		"rules":          func(k *exceptions.Keeper, next *rules.Set) { k.Use(next) },
		"expected rules": func(k *exceptions.Keeper, next *rules.Set) { k.Expect(t.Context(), next); k.Use(next) },
		"limits":         func(k *exceptions.Keeper, _ *rules.Set) { k.UseLimits() },
	} {
		t.Run(name, func(t *testing.T) {
			var meanwhile func()
			limits := func(path string, values map[string]string) (rules.Match, map[string]string, error) {
				if change := meanwhile; change != nil {
					meanwhile = nil
					change()
				}
				return rules.Match{Rule: new(rules.Rule), Identity: []byte(path + values["k"])}, values, nil
			}
			k := exceptions.New(exceptions.Options{Logger: slog.New(slog.DiscardHandler), Limits: limits})
			k.Use(parseRules(t, ruleText))
			add := func(value string) {
				x := exception(0, "", exceptions.Allow)
				x.Limit, x.Identity = "d.k", map[string]string{"k": value}
				if _, err := k.Add(t.Context(), []exceptions.Exception{x}); err != nil {
					t.Error(err)
				}
			}
			add("before")
			meanwhile = func() {
				if n := count(k); n != 1 {
					t.Errorf("%d exceptions are counted; want 1", n)
				}
				add("meanwhile")
			}
			renew(k, parseRules(t, ruleText))
			if meanwhile != nil {
				t.Fatal("nothing was resolved")
			}
			m := memory.New(memory.Options{})
			defer m.Close()
			e := engine.New(parseRules(t, ruleText), wiring.CountIn(m), engine.WithExceptions(k.Engine()))
			for _, value := range []string{"before", "meanwhile"} {
				if e.Exception(&rules.Match{Rule: new(rules.Rule), Identity: []byte("d.k" + value)}) == nil {
					t.Errorf("the exception of %s is not in force", value)
				}
			}
		})
	}
}

// stepping is a context that counts the steps of work.
type stepping struct {
	context.Context
	steps int
}

func (s *stepping) Err() error {
	s.steps++
	return nil
}

// Exceptions are made ready for expected rules in steps, between which decisions go on.
func TestExpectingPauses(t *testing.T) {
	const n = 100
	k := exceptions.New(exceptions.Options{Logger: slog.New(slog.DiscardHandler)})
	k.Use(parseRules(t, ruleText))
	list := make([]exceptions.Exception, n)
	for i := range list {
		list[i] = exception(1, "user-"+strconv.Itoa(i), exceptions.Allow)
	}
	if _, err := k.Add(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	s := &stepping{Context: t.Context()}
	k.Expect(s, parseRules(t, ruleText))
	if s.steps < 2*n {
		t.Errorf("%d steps for %d exceptions; want one for each to resolve it, and one to find it", s.steps, n)
	}
}
