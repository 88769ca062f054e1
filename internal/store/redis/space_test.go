package redis_test

import (
	"context"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// Instances share the name of a space as long as one of them uses it, and no longer.
func TestNameOfASpace(t *testing.T) {
	client := storetest.StartServer(t).Client()
	defer client.Close()
	const key = "koala:{spaces}:rules"
	o := &redis.Options{Budget: 10 * time.Second}
	join := func(t *testing.T) (*redis.SpaceName, string) {
		t.Helper()
		s := redis.NewSpaceName(client, o, "rules")
		name, err := s.Join(t.Context())
		if err != nil || len(name) != 12 {
			t.Fatalf("joined %q, %v", name, err)
		}
		return s, name
	}
	leave := func(t *testing.T, s *redis.SpaceName) {
		t.Helper()
		if err := s.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		meanwhile func(t *testing.T, first *redis.SpaceName)
		same      bool
	}{
		"the first one stays": {func(*testing.T, *redis.SpaceName) {}, true},
		"it has left":         {leave, false},
		"another one stays": {func(t *testing.T, first *redis.SpaceName) {
			join(t)
			leave(t, first)
		}, true},
		"it has lapsed": {func(t *testing.T, _ *redis.SpaceName) {
			client.Set(t.Context(), key, "ABCDEFGHIJKL A=1", time.Minute)
		}, false},
		"another type": {func(t *testing.T, _ *redis.SpaceName) {
			client.Del(t.Context(), key)
			client.LPush(t.Context(), key, "x")
		}, false},
		"no name at all": {func(t *testing.T, _ *redis.SpaceName) { client.Set(t.Context(), key, " A=99999999999999", 0) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			client.Del(t.Context(), key)
			first, before := join(t)
			c.meanwhile(t, first)
			_, after := join(t)
			if (after == before) != c.same {
				t.Errorf("joined %s after %s", after, before)
			}
			if left := client.PTTL(t.Context(), key).Val(); left <= 0 || left > 10*time.Second {
				t.Errorf("the key expires in %v", left)
			}
		})
	}
}

// An instance that could not reach Redis learns that the others have another name.
func TestKeepingTheNameOfASpace(t *testing.T) {
	client := storetest.StartServer(t).Client()
	defer client.Close()
	o := &redis.Options{Budget: 10 * time.Second}
	away, cancel := context.WithCancel(t.Context())
	cancel()
	late := redis.NewSpaceName(client, o, "rules")
	if name, err := late.Join(away); err == nil || name == "" {
		t.Errorf("joined %q, %v", name, err)
	}
	if same, err := late.Keep(t.Context()); err != nil || !same {
		t.Errorf("alone: %t, %v", same, err)
	}
	client.Del(t.Context(), "koala:{spaces}:rules")
	other := redis.NewSpaceName(client, o, "rules")
	if _, err := other.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	for want, s := range map[bool]*redis.SpaceName{true: other, false: late} {
		if same, err := s.Keep(t.Context()); err != nil || same != want {
			t.Errorf("%t, %v; want %t", same, err, want)
		}
	}
}
