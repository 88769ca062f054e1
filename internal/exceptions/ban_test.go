package exceptions_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/exceptions"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/rules"
)

const declaredRules = "[params]\nplan : header X-Plan\n" + ruleText

// ban returns a ban from everything of an hour.
func ban(identity map[string]string) exceptions.Exception {
	return exceptions.Exception{What: exceptions.Ban, Identity: identity, Until: time.Now().Add(time.Hour)}
}

// A ban names parameters that requests have for certain, and neither a rule nor a limit.
func TestBansThatAreRefused(t *testing.T) {
	k := exceptions.New(exceptions.Options{Logger: slog.New(slog.DiscardHandler)})
	k.Use(parseRules(t, declaredRules))
	many := make(map[string]string)
	for i := range 17 {
		many["p"+strconv.Itoa(i)] = "x"
	}
	of := ban(map[string]string{"uid": "ann"})
	of.Rule = 1
	count := ban(map[string]string{"uid": "ann"})
	count.Count = 3
	ended := ban(map[string]string{"uid": "ann"})
	ended.Until = time.Now()
	for want, x := range map[string]exceptions.Exception{
		"names no rule and no limit":   of,
		"would refuse everybody":       ban(nil),
		"want at most 16":              ban(many),
		"two values of a parameter":    ban(map[string]string{"uid": "ann", "uid@client-ip": "192.0.2.1"}),
		"has no value":                 ban(map[string]string{"uid": " "}),
		"names no source":              ban(map[string]string{"uid@nowhere": "ann"}),
		"knows the parameter \"user\"": ban(map[string]string{"user": "ann"}),
		"a count is set for ban":       count,
		"has passed":                   ended,
	} {
		if _, err := k.Add(t.Context(), []exceptions.Exception{x}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
	if list := k.List(); len(list) > 0 {
		t.Errorf("%v are in force", list)
	}
}

// A ban refuses by any parameter that rules use, [params] declares or doors derive, lasts over a
// reload, and ends.
func TestBansInForce(t *testing.T) {
	now := time.Now()
	k := exceptions.New(exceptions.Options{Now: func() time.Time { return now }, Logger: slog.New(slog.DiscardHandler)})
	set := parseRules(t, declaredRules)
	k.Use(set)
	e := engine.New(set, engine.WithExceptions(k.Engine()))
	for _, identity := range []map[string]string{{"uid": " ann "}, {"plan": "free", "act": "post"}, {"ip": "203.0.113.7"}, {"uid@client-ip": "192.0.2.1"}} {
		if _, err := k.Add(t.Context(), []exceptions.Exception{ban(identity)}); err != nil {
			t.Errorf("%v: %v", identity, err)
		}
	}
	if _, err := k.Add(t.Context(), []exceptions.Exception{ban(map[string]string{"uid": "ann"})}); err == nil {
		t.Error("a second ban of ann was added")
	}
	if n := k.Counts()[exceptions.Ban]; n != 4 {
		t.Errorf("%d bans are in force; want 4", n)
	}
	banned := func(params ...string) bool {
		p := new(rules.Params)
		for i := 0; i < len(params); i += 2 {
			p.SetNamed(params[i], params[i+1])
		}
		return e.Ban(p) != nil
	}
	check := func(when string, want bool) {
		t.Helper()
		for _, params := range [][]string{{"uid", "ann"}, {"act", "post", "plan", "free"}, {"ip", "203.0.113.7", "uid", "bob"}, {"uid@client-ip", "192.0.2.1"}} {
			if got := banned(params...); got != want {
				t.Errorf("%s: %v are banned: %v", when, params, got)
			}
		}
		for _, params := range [][]string{{"uid", "bob"}, {"plan", "free"}, {"uid", "192.0.2.1"}} {
			if banned(params...) {
				t.Errorf("%s: %v are banned", when, params)
			}
		}
	}
	check("at first", true)
	k.Use(parseRules(t, strings.ReplaceAll(ruleText, "uid", "user")))
	check("after a reload", true)
	now = now.Add(2 * time.Hour)
	check("after the end", false)
}

// Every instance learns once, and again if it could not act on it, that a ban has ended or that another
// instance has removed it. It learns nothing of other exceptions, and of a ban that it removed itself.
func TestEndsOfBansAreReported(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]*storetest.Server{"in Redis": storetest.StartServer(t), "in this process": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := 1
			if server != nil {
				n = 2
			}
			ended := make([]chan exceptions.Exception, n)
			keepers := make([]*exceptions.Keeper, n)
			for i := range keepers {
				ended[i] = make(chan exceptions.Exception, 100)
				failed := false
				o := exceptions.Options{Prefix: "bans", Logger: slog.New(slog.DiscardHandler), Ended: func(_ context.Context, ban *exceptions.Exception) error {
					if !failed {
						failed = true
						return errors.New("the store is away")
					}
					ended[i] <- *ban
					return nil
				}}
				if server != nil {
					client := server.Client()
					defer client.Close()
					o.Redis = client
				}
				k := exceptions.New(o)
				k.Use(parseRules(t, declaredRules))
				ctx, cancel := context.WithCancel(t.Context())
				stopped := make(chan struct{})
				go func() { defer close(stopped); k.Run(ctx) }()
				defer func() { cancel(); <-stopped }()
				keepers[i] = k
			}
			add := func(span time.Duration, list ...exceptions.Exception) string {
				t.Helper()
				for i := range list {
					list[i].Until = keepers[0].Now().Add(span)
				}
				added, err := keepers[0].Add(t.Context(), list)
				if err != nil {
					t.Fatal(err)
				}
				for _, k := range keepers {
					await(t, k, len(list))
				}
				return added[0].ID
			}
			// learns checks that the instances from one on learn of a ban in time.
			learns := func(id string, from int) {
				t.Helper()
				for i := from; i < n; i++ {
					select {
					case got := <-ended[i]:
						if got.ID != id || got.Until.After(keepers[i].Now()) {
							t.Errorf("instance %d learns of %s, which was in force until %s; want %s", i, got.ID, got.Until, id)
						}
					case <-time.After(20 * time.Second):
						t.Fatalf("instance %d does not learn of %s", i, id)
					}
				}
			}
			// Many seconds: a busy instance sees both in time.
			learns(add(4*time.Second, ban(map[string]string{"uid": "ann"}), exception(1, "eve", exceptions.Allow)), 0)
			for _, k := range keepers {
				await(t, k, 0)
			}
			id := add(time.Hour, ban(map[string]string{"uid": "bob"}))
			if _, err := keepers[0].Remove(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			learns(id, 1)
			for i := range ended {
				if len(ended[i]) > 0 {
					t.Errorf("instance %d learns of another exception", i)
				}
			}
		})
	}
}

// An instance learns that another one has removed a ban, also if it finds that out when it removes the
// ban itself.
func TestEndOfABanThatTwoRemoveIsReported(t *testing.T) {
	client := storetest.StartServer(t).Client()
	defer client.Close()
	ended := make(chan string, 10)
	late := exceptions.New(exceptions.Options{Redis: client, Prefix: "bans", Logger: slog.New(slog.DiscardHandler), Ended: func(_ context.Context, x *exceptions.Exception) error {
		ended <- x.ID
		return nil
	}})
	late.Use(parseRules(t, declaredRules))
	added, err := late.Add(t.Context(), []exceptions.Exception{ban(map[string]string{"uid": "ann"})})
	if err != nil {
		t.Fatal(err)
	}
	client.Del(t.Context(), "bans:{exceptions}:book") // as another instance does
	if _, err := late.Remove(t.Context(), added[0].ID); !errors.Is(err, exceptions.ErrUnknown) {
		t.Errorf("%v; want ErrUnknown", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() { defer close(stopped); late.Run(ctx) }()
	defer func() { cancel(); <-stopped }()
	select {
	case id := <-ended:
		if id != added[0].ID {
			t.Errorf("learned of %s", id)
		}
	case <-time.After(20 * time.Second):
		t.Error("the end of the ban was not reported")
	}
}
