package audit

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store/storetest"
)

var quiet = slog.New(slog.DiscardHandler)

// change returns the nth change.
func change(n int) *Change {
	return &Change{Author: "ann@desk", Peer: "127.0.0.1:9", Action: "reset", Detail: fmt.Sprint("change ", n)}
}

// clock returns a clock that goes on by a second with each call.
func clock() func() time.Time {
	now := time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)
	return func() time.Time {
		now = now.Add(time.Second)
		return now
	}
}

func details(list []Change) string {
	var all []string
	for _, c := range list {
		all = append(all, c.Host+": "+c.Detail)
	}
	return strings.Join(all, ", ")
}

// The trail forgets the oldest changes.
func TestTrailIsBounded(t *testing.T) {
	trail := New(Options{Logger: quiet, Now: clock()})
	for n := range Max + 1 {
		trail.Add(t.Context(), change(n))
	}
	list, isFleet := trail.Changes(t.Context())
	if len(list) > Max || len(list) <= Max/2 || isFleet || list[0].Detail != fmt.Sprint("change ", Max) {
		t.Errorf("%d changes, of all instances: %v, %+v", len(list), isFleet, list[0])
	}
}

// Instances that share a Redis share their changes; without it each has its own.
func TestInstancesShareTheTrail(t *testing.T) {
	server := storetest.StartServer(t)
	admin := server.Client()
	defer admin.Close()
	grants := []any{"ACL", "SETUSER", "koalagate", "on", ">secret", "~koala:*", "+evalsha", "+eval", "+pexpire", "+lpush", "+ltrim", "+lrange"}
	if err := admin.Do(t.Context(), grants...).Err(); err != nil {
		t.Fatal(err)
	}
	now := clock()
	open := func(host string) *Trail {
		options := *admin.Options()
		options.Username, options.Password = "koalagate", "secret"
		client := goredis.NewClient(&options)
		t.Cleanup(func() { _ = client.Close() })
		return New(Options{Redis: client, Prefix: "koala", Host: host, Now: now, Logger: quiet})
	}
	one, other := open("a"), open("b")
	one.Add(t.Context(), change(1))
	other.Add(t.Context(), change(2))
	one.Add(t.Context(), change(3))
	const want = "a: change 3, b: change 2, a: change 1"
	for _, trail := range []*Trail{one, other, open("c")} {
		if list, isFleet := trail.Changes(t.Context()); details(list) != want || !isFleet {
			t.Errorf("%s, of all instances: %v; want %s", details(list), isFleet, want)
		}
	}
	for n := range Max {
		other.Add(t.Context(), change(n))
	}
	if n, err := admin.LLen(t.Context(), "koala:{audit}:changes").Result(); n != Max || err != nil {
		t.Errorf("Redis keeps %d changes, %v; want %d", n, err, Max)
	}
	server.CheckExpiries(t, "koala")

	// While Redis is away an instance has its own changes, and later those that it could
	// not write.
	server.Kill()
	other = open("d")
	other.Add(t.Context(), change(5))
	if list, isFleet := other.Changes(t.Context()); details(list) != "d: change 5" || isFleet {
		t.Errorf("without Redis: %s, of all instances: %v", details(list), isFleet)
	}
	server.Start()
	if err := admin.Do(t.Context(), grants...).Err(); err != nil {
		t.Fatal(err)
	}
	open("e").Add(t.Context(), change(6))
	if list, isFleet := other.Changes(t.Context()); details(list) != "e: change 6, d: change 5" || !isFleet {
		t.Errorf("when Redis is back: %s, of all instances: %v", details(list), isFleet)
	}
}

// Whatever Redis holds, valid changes are shown, and long ones are bounded.
func TestHostileRedis(t *testing.T) {
	server := storetest.StartServer(t)
	client := server.Client()
	defer client.Close()
	trail := New(Options{Redis: client, Prefix: "koala", Now: clock(), Logger: quiet})
	long := change(1)
	long.Detail = strings.Repeat("\x00", 100_000)
	trail.Add(t.Context(), long)
	for _, value := range []string{
		"", "null", "{}", "[", `{"id":"a"}`, "\xff", strings.Repeat("x", 10<<20),
		`{"id":"a","at":"2026-11-23T03:00:00Z","action":"` + strings.Repeat("x", 300) + `"}`,
	} {
		if err := client.LPush(t.Context(), "koala:{audit}:changes", value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	fresh := New(Options{Redis: client, Prefix: "koala", Now: clock(), Logger: quiet})
	fresh.Add(t.Context(), change(2))
	list, isFleet := fresh.Changes(t.Context())
	if !isFleet || len(list) != 2 || len(list[0].Detail)+len(list[1].Detail) > maxRecord {
		t.Errorf("%d changes, of all instances: %v", len(list), isFleet)
	}
	if err := client.Set(t.Context(), "koala:{audit}:changes", "another type", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if list, isFleet := fresh.Changes(t.Context()); isFleet || len(list) != 1 {
		t.Errorf("of another type: %d changes, of all instances: %v", len(list), isFleet)
	}
}

// wireChange is what an instance writes to Redis. Instances of other program versions read it.
const wireChange = `{"id":"X4T2QK7MNB5A","at":"2026-11-23T03:00:00Z","author":"ann@desk","peer":"127.0.0.1:9","host":"h1","action":"reset","detail":"change 1"}`

func TestWireForm(t *testing.T) {
	one := record{ID: "X4T2QK7MNB5A", Change: *change(1)}
	one.Host, one.At = "h1", time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)
	if got := string(one.encode()); got != wireChange {
		t.Errorf("a change is\n%s\nwant\n%s", got, wireChange)
	}
	newer := strings.Replace(wireChange, `{"id"`, `{"new":[1],"id"`, 1)
	if got, err := parse(newer); err != nil || got != one {
		t.Errorf("%+v, %v; want %+v", got, err, one)
	}
}

// FuzzParse checks that any text in Redis is read or refused, and that what was read can be
// written.
func FuzzParse(f *testing.F) {
	one := record{ID: "X4T2QK7MNB5A", Change: *change(1)}
	one.At = time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)
	f.Add(string(one.encode()))
	f.Add(`{"id":"a","at":"2026-11-23T03:00:00Z","action":"mode","new":{"x":[1]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		read, err := parse(text)
		if err != nil {
			return
		}
		written := read.encode()
		if len(written) > maxRecord {
			t.Errorf("%d bytes", len(written))
		}
		again, err := parse(string(written))
		if err != nil || again.ID != read.ID || again.Action != read.Action || !again.At.Equal(read.At) {
			t.Errorf("%v, %+v; want %+v", err, again, read)
		}
	})
}

// A program that can write to Redis changes the trail of all instances, but not what the
// instance itself remembers, nor its log.
func TestWriterOfTheTrail(t *testing.T) {
	server := storetest.StartServer(t)
	client := server.Client()
	defer client.Close()
	var text strings.Builder
	open := func(host string) *Trail {
		return New(Options{Redis: client, Prefix: "koala", Host: host, Now: clock(), Logger: slog.New(slog.NewTextHandler(&text, nil))})
	}
	one, other := open("a"), open("b")
	one.Add(t.Context(), change(1))
	forged := client.LIndex(t.Context(), "koala:{audit}:changes", 0).Val()
	forged = strings.NewReplacer("change 1", "nothing", `"id":"`, `"id":"x`).Replace(forged)
	client.Del(t.Context(), "koala:{audit}:changes")
	client.LPush(t.Context(), "koala:{audit}:changes", forged)
	if list, _ := other.Changes(t.Context()); details(list) != "a: nothing" {
		t.Errorf("at another instance: %s", details(list))
	}
	if list, _ := one.Changes(t.Context()); !strings.Contains(details(list), "a: change 1") || !strings.Contains(text.String(), "change 1") {
		t.Errorf("at the instance: %s; its log: %s", details(list), text.String())
	}
}
