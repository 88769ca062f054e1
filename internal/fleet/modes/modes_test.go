package modes

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/internal/store/redisconn"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

func TestMain(m *testing.M) {
	redisconn.LogClient(func(string) {}) // the errors of calls report the same failures
	os.Exit(m.Run())
}

// applied are the modes of an instance.
type applied map[string]string

func instance(t *testing.T, server *storetest.Server) (*Keeper, applied) {
	t.Helper()
	client := server.Client()
	t.Cleanup(func() { client.Close() })
	has := make(applied)
	return New(Options{
		Redis: client, Prefix: "koala", Logger: slog.New(slog.DiscardHandler),
		IsDoor: func(door string) bool { return door == "extauthz" || door == "koala" },
		Apply:  func(modes map[string]string, _ bool) { maps.Copy(has, modes) },
		Undo: func(doors []string) {
			for _, door := range doors {
				delete(has, door)
			}
		},
	}), has
}

// All instances follow a mode once, and so does one that starts later.
func TestInstancesFollow(t *testing.T) {
	server := storetest.StartServer(t)
	one, first := instance(t, server)
	two, second := instance(t, server)
	read := func(all ...*Keeper) {
		t.Helper()
		for _, k := range all {
			if err := k.read(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	read(one, two)
	if err := one.Set(t.Context(), map[string]string{"extauthz": "off", "koala": "observe"}); err != nil {
		t.Fatal(err)
	}
	read(one, two)
	want := applied{"extauthz": "off", "koala": "observe"}
	for name, got := range map[string]applied{"the first": first, "the second": second} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	second["koala"] = "enforce" // an operator changed the mode of this instance alone
	read(two)
	if second["koala"] != "enforce" {
		t.Error("a mode was applied twice")
	}
	if err := two.Set(t.Context(), map[string]string{"koala": "observe"}); err != nil { // the same mode again
		t.Fatal(err)
	}
	late, third := instance(t, server)
	read(two, late)
	if diff := cmp.Diff(want, third); diff != "" || second["koala"] != "observe" {
		t.Errorf("%v; the late one: %s", second, diff)
	}
	// Without the key, or a door in it, nothing stays.
	one.o.Redis.HDel(t.Context(), one.key, "koala")
	read(one, two, late)
	if first["koala"] != "" || first["extauthz"] != "off" {
		t.Errorf("without a door in Redis: %v", first)
	}
	if ttl := one.o.Redis.PTTL(t.Context(), one.key).Val(); ttl <= 0 || ttl > expiry {
		t.Errorf("the modes expire in %v", ttl)
	}
	one.o.Redis.Del(t.Context(), one.key)
	read(one, two, late)
	if len(first)+len(second)+len(third) != 0 {
		t.Errorf("without the key: %v %v %v", first, second, third)
	}
}

// Whatever Redis holds, an instance reads a bounded part of it.
func TestHostileRedis(t *testing.T) {
	server := storetest.StartServer(t)
	one, has := instance(t, server)
	client := server.Client()
	defer client.Close()
	if err := one.Set(t.Context(), map[string]string{"koala": "observe"}); err != nil {
		t.Fatal(err)
	}
	for i := range 10 * maxFields {
		client.HSet(t.Context(), one.key, fmt.Sprint("door", i), "name off")
	}
	client.HSet(t.Context(), one.key, "extauthz", "name "+strings.Repeat("x", maxText))
	client.HDel(t.Context(), one.key, "koala")
	if err := one.read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(applied{"koala": "observe"}, has); diff != "" { // a part does not show what is gone
		t.Error(diff)
	}
	client.Del(t.Context(), one.key)
	client.Set(t.Context(), one.key, "no hash", 0)
	if err := one.read(t.Context()); err == nil {
		t.Error("no error without a hash")
	}
}

// Run reads at once, and ends.
func TestRun(t *testing.T) {
	server := storetest.StartServer(t)
	one, _ := instance(t, server)
	if err := one.Set(t.Context(), map[string]string{"koala": "off"}); err != nil {
		t.Fatal(err)
	}
	other, _ := instance(t, server)
	modes := make(chan map[string]string, 1)
	other.o.Apply = func(m map[string]string, _ bool) { modes <- m }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); other.Run(ctx) }()
	if got := <-modes; got["koala"] != "off" {
		t.Error(got)
	}
	cancel()
	<-ended
}
