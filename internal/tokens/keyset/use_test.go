package keyset_test

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/tokens"
	"github.com/koalagate/koalagate/internal/tokens/keyset"
	"github.com/koalagate/koalagate/rules"
)

// parse reads rules that use a claim of each of these lines of [tokens], apart from one named
// unused.
func (k *keeping) parse(t *testing.T, lines ...string) *rules.Set {
	t.Helper()
	var params strings.Builder
	for _, l := range lines {
		if name, _, _ := strings.Cut(l, " "); name != "unused" {
			fmt.Fprintf(&params, "%s-user : jwt %s sub\n", name, name)
		}
	}
	text := "[tokens]\n" + strings.Join(lines, "\n") + "\n[params]\n" + params.String() + "[rules]\n[result]\n0 : {}\n1 : {}\n"
	ring := tokens.NewRing(tokens.Options{Address: k.Source})
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{OpenToken: ring.Open, AllowEmpty: true})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	return set
}

// due waits until the set has a timer for an instant, and forgets earlier timers.
func (k *keeping) due(t *testing.T, at time.Time) {
	t.Helper()
	until(t, "a timer that is due in "+at.Sub(k.Now()).String(), func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		found := slices.IndexFunc(k.timers, func(one timer) bool { return one.at.Equal(at) })
		if found < 0 {
			return false
		}
		k.timers = k.timers[found:] // Await may have made one since
		return true
	})
}

// Rules with another refresh move the next fetch, counted from the last one.
func TestRefreshFollowsTheRules(t *testing.T) {
	t.Parallel()
	i := newIssuer(t, serve(keyText(t, "a")))
	k := keep(t, i.roots(), "")
	at := "main : " + i.URL + "; issuer=id; refresh="
	load := func(as keyset.Role, lines ...string) *rules.Set {
		set := k.parse(t, lines...)
		k.Use(as, set)
		return set
	}
	first := load(keyset.InForce, at+"24h")
	k.Await()
	last := k.Now()
	k.due(t, last.Add(24*time.Hour))

	k.advance(4 * time.Second)
	load(keyset.InForce, at+"10s")
	k.due(t, last.Add(10*time.Second))
	k.advance(6 * time.Second)
	until(t, "the fetch after 10 s", func() bool { return k.state(t).Fetches == 2 })
	last = k.Now()
	k.due(t, last.Add(10*time.Second))

	load(keyset.InForce, at+"24h", strings.Replace(at, "main", "other", 1)+"1h")
	k.due(t, last.Add(time.Hour)) // the shortest counts
	load(keyset.InForce, at+"24h", strings.Replace(at, "main", "unused", 1)+"10s")
	k.due(t, last.Add(24*time.Hour))
	load(keyset.OnTrial, at+"30s")
	k.due(t, last.Add(30*time.Second))
	k.Use(keyset.OnTrial, nil)
	k.due(t, last.Add(24*time.Hour))
	k.advance(2 * time.Hour)
	load(keyset.InForce, at+"1h")
	until(t, "the fetch that is due already", func() bool { return k.state(t).Fetches == 3 })
	if n := i.requests(); n != 3 {
		t.Errorf("%d fetches; want 3", n)
	}
	runtime.KeepAlive(first)
}

// States have the names of the lines in force, and of those on trial that have other names.
func TestStatesNameTheLinesInUse(t *testing.T) {
	t.Parallel()
	i := newIssuer(t, serve(keyText(t, "a")))
	k := keep(t, i.roots(), "")
	at := func(name, path string) string { return name + " : " + i.URL + path + "; issuer=id" }
	opened := k.parse(t, at("main", "/a"), at("main2", "/b"), at("main3", "/c")) // which keeps three sets
	for _, c := range []struct {
		name  string
		as    keyset.Role
		lines []string
		want  [][]string // by address
	}{
		{"none yet", keyset.OnTrial, nil, [][]string{nil, nil, nil}},
		{"the first rules", keyset.InForce, []string{at("main", "/a"), at("corp", "/b"), at("shop", "/b")}, [][]string{{"main"}, {"corp", "shop"}, nil}},
		{"another name", keyset.InForce, []string{at("user", "/a"), at("corp", "/b")}, [][]string{{"user"}, {"corp"}, nil}},
		{"another address", keyset.InForce, []string{at("user", "/b"), at("corp", "/a")}, [][]string{{"corp"}, {"user"}, nil}},
		{"a line that nothing uses", keyset.InForce, []string{at("user", "/b"), at("unused", "/a")}, [][]string{nil, {"user"}, nil}},
		{"a trial with a name in force", keyset.OnTrial, []string{at("user", "/c"), at("tried", "/b")}, [][]string{nil, {"user", "tried"}, nil}},
		{"a trial of an address of its own", keyset.OnTrial, []string{at("tried", "/c")}, [][]string{nil, {"user"}, {"tried"}}},
		{"its name in force", keyset.InForce, []string{at("tried", "/a")}, [][]string{{"tried"}, nil, nil}},
		{"the end of the trial", keyset.OnTrial, nil, [][]string{{"tried"}, nil, nil}},
	} {
		if c.lines == nil {
			k.Use(c.as, nil)
		} else {
			k.Use(c.as, k.parse(t, c.lines...))
		}
		var got [][]string
		for _, s := range k.States() {
			got = append(got, s.Tokens)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %q; want %q", c.name, got, c.want)
		}
	}
	runtime.KeepAlive(opened)
}
