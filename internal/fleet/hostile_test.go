package fleet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store/storetest"
)

// inForce writes a record as if it had come into force, as whoever can write to Redis can.
func inForce(t *testing.T, client *goredis.Client, number uint64, value []byte) {
	t.Helper()
	k := keysOf(prefix)
	pipe := client.TxPipeline()
	pipe.Set(t.Context(), k.version(number), value, 0)
	pipe.HSet(t.Context(), k.head, "in_force", number, "last", number, "at", time.Now().UnixMilli())
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// What Redis returns is checked: an instance keeps its rules and is not ready, and one
// that starts has none.
func TestHostileVersions(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("bob\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	k := keysOf(prefix)
	write := func(t *testing.T, client *goredis.Client, contents Contents) {
		t.Helper()
		for sum, content := range contents {
			err := client.HSet(t.Context(), k.blob(sum), "0", content).Err()
			if content == nil { // a key of another type
				err = errors.Join(client.Del(t.Context(), k.blob(sum)).Err(), client.Set(t.Context(), k.blob(sum), "b", 0).Err())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	// encode returns the record of a version after a change of its manifest.
	encode := func(m *Manifest, change func(*Manifest)) []byte {
		m.Number, m.Before, m.Prefix = 7, 1, prefix
		change(m)
		text, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return record(text, "")
	}
	unchanged := func(*Manifest) {}
	for name, c := range map[string]struct {
		value func(m *Manifest, contents Contents) []byte
		want  string
	}{
		"cut": {func(m *Manifest, _ Contents) []byte {
			value := encode(m, unchanged)
			return value[:len(value)/2]
		}, "cut or damaged"},
		"no manifest": {func(*Manifest, Contents) []byte { return []byte("garbage") }, "cut or damaged"},
		"empty":       {func(*Manifest, Contents) []byte { return nil }, "is not in Redis"},
		"huge":        {func(*Manifest, Contents) []byte { return make([]byte, maxManifest+1) }, "larger than"},
		"of a newer program": {func(m *Manifest, _ Contents) []byte {
			return []byte(strings.Replace(string(encode(m, func(m *Manifest) { m.Program = "v9.1.0" })), `"format":1`, `"format":2`, 1))
		}, "published by the program version \"v9.1.0\""},
		"with an unknown field": {func(m *Manifest, _ Contents) []byte {
			return []byte(strings.Replace(string(encode(m, unchanged)), `"format":1`, `"format":1,"x":1`, 1))
		}, "unknown field"},
		"with another number": {func(m *Manifest, _ Contents) []byte {
			return encode(m, func(m *Manifest) { m.Number = 6 })
		}, "belongs to version 6"},
		"of another fleet": {func(m *Manifest, _ Contents) []byte {
			return encode(m, func(m *Manifest) { m.Prefix = "other" })
		}, `for the redis_prefix "other"`},
		"with control characters": {func(m *Manifest, _ Contents) []byte {
			return encode(m, func(m *Manifest) { m.Note = "\x1b[2J" })
		}, "control characters"},
		"with a path as a hash": {func(m *Manifest, _ Contents) []byte {
			return encode(m, func(m *Manifest) { m.Lists[0].Sum = secret })
		}, "invalid blob"},
		"with a path of the host": {func(m *Manifest, contents Contents) []byte {
			text := strings.Replace(ruleText(5), "words.dat", secret, 1)
			m.Files[0].Blob = contents.add([]byte(text))
			return encode(m, unchanged)
		}, "the version does not contain it"},
		"that states more than the bound": {func(m *Manifest, _ Contents) []byte {
			return encode(m, func(m *Manifest) { m.Lists[0].Size = 1 << 40 })
		}, "max_version_bytes"},
		"with a blob of two sizes": {func(m *Manifest, _ Contents) []byte {
			return encode(m, func(m *Manifest) { m.Lists = append(m.Lists, ListFile{"s", "p", Blob{m.Lists[0].Sum, -1}}) })
		}, "invalid blob"},
		"without a blob": {func(m *Manifest, contents Contents) []byte {
			value := encode(m, unchanged)
			clear(contents)
			return value
		}, "cut, damaged or missing"},
		"with a longer blob": {func(m *Manifest, contents Contents) []byte {
			contents[m.Lists[0].Sum] = make([]byte, 1<<20)
			return encode(m, unchanged)
		}, "cut, damaged or missing"},
		"with a modified blob": {func(m *Manifest, contents Contents) []byte {
			contents[m.Lists[0].Sum] = []byte("evil\n")
			return encode(m, unchanged)
		}, "another hash"},
		"with rules that have errors": {func(m *Manifest, contents Contents) []byte {
			m.Files[0].Blob = contents.add([]byte("[rules]\nrule : [cuont] [] [] [result=2; return=1]\n"))
			return encode(m, unchanged)
		}, "cuont"},
		"with a blob of another type": {func(m *Manifest, contents Contents) []byte {
			contents[m.Lists[0].Sum] = nil
			return encode(m, unchanged)
		}, "WRONGTYPE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := storetest.StartServer(t)
			client := server.Client()
			defer client.Close()
			r := openRecords(t, server.URL())
			i := startInstance(t, r)
			livingInstances(t, r, 1)
			m, contents := bundle(1)
			mustPublish(t, r, m, contents)
			eventually(t, "the first version", func() bool { return i.version() == 1 })
			m, contents = bundle(5)
			m.Lists[0].Blob = contents.add([]byte("carl\n"))
			value := c.value(m, contents)
			write(t, client, contents)
			inForce(t, client, 7, value)
			late := startInstance(t, r)
			if s := late.State(); s.Generation != 0 || !strings.Contains(s.Unready, c.want) {
				t.Errorf("an instance that starts: %+v; want %q", s, c.want)
			}
			if name == "with a blob of another type" {
				return // like a Redis that does not answer, it is tried again
			}
			eventually(t, c.want, func() bool { return strings.Contains(i.State().Unready, c.want) })
			if i.version() != 1 {
				t.Errorf("it decides by version %d", i.version())
			}
		})
	}
}

// Versions that are older than what an instance has seen are not taken, even if they are
// signed: a Redis that was restored from an old copy changes nothing.
func TestReplayedVersion(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t)
	client := server.Client()
	defer client.Close()
	r := openRecords(t, server.URL())
	dir := t.TempDir()
	i := startInstance(t, r, func(o *MemberOptions) { o.StateDir = dir })
	livingInstances(t, r, 1)
	for limit := range 3 {
		m, contents := bundle(limit + 1)
		mustPublish(t, r, m, contents)
	}
	eventually(t, "version 3", func() bool { return i.version() == 3 })
	k := keysOf(prefix)
	client.HSet(t.Context(), k.head, "in_force", 1, "last", 1)
	eventually(t, "it says so", func() bool { return strings.Contains(i.State().LastError, "has seen version 3") })
	if s := i.State(); i.version() != 3 || s.Unready != "" {
		t.Errorf("after the replay: %+v", s)
	}
	i.stop()
	// state_dir remembers it over a restart.
	again := startInstance(t, r, func(o *MemberOptions) { o.StateDir = dir })
	if s := again.State(); again.version() != 3 || !strings.Contains(s.LastError, "has seen version 3") {
		t.Errorf("after a restart: version %d, %+v", again.version(), s)
	}
}

// A Redis that may drop keys without an expiry is no source of rules.
func TestEvictionPolicies(t *testing.T) {
	for policy, c := range map[string]struct {
		limit string
		drops bool
	}{
		"noeviction": {"1", false}, "volatile-lru": {"1", false}, "allkeys-lru": {"1", true}, "allkeys-random": {"0", false},
	} {
		info := fmt.Sprintf("# Memory\r\nmaxmemory:%s\r\nmaxmemory_policy:%s\r\n", c.limit, policy)
		if _, drops := dropsKeys(info); drops != c.drops {
			t.Errorf("%s with maxmemory %s: drops keys: %v", policy, c.limit, drops)
		}
	}
	server := storetest.StartServer(t)
	client := server.Client()
	defer client.Close()
	client.ConfigSet(t.Context(), "maxmemory", "100mb")
	client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru")
	r := openRecords(t, server.URL())
	startInstance(t, r)
	livingInstances(t, r, 1)
	m, contents := bundle(1)
	if _, err := publish(t, r, m, contents); err == nil || !strings.Contains(err.Error(), "allkeys-lru") {
		t.Errorf("%v; want a refusal that names the policy", err)
	}
}

// Only the keys of published versions, and the record of the one in force, never expire.
func TestKeysExpire(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t)
	client := server.Client()
	defer client.Close()
	r := openRecords(t, server.URL(), func(o *Options) { o.Keep = 2 })
	i := startInstance(t, r)
	livingInstances(t, r, 1)
	for limit := range 4 {
		m, contents := bundle(limit + 1)
		number := mustPublish(t, r, m, contents)
		eventually(t, "the switch", func() bool { return i.version() == number })
	}
	// A proposal that was refused, and an upload that nobody used.
	m, contents := bundle(9)
	m.Files[0].Blob = contents.add([]byte("[rules]\n"))
	outcome(t, r, submit(t, r, m, contents))
	k := keysOf(prefix)
	lasting := func() (names []string) {
		all, err := client.Keys(t.Context(), "*").Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range all {
			if client.PTTL(t.Context(), name).Val() == -1 {
				names = append(names, name)
			}
		}
		return names
	}
	// head, history, two versions, two rule files and one word list.
	eventually(t, "seven lasting keys", func() bool { return len(lasting()) == 7 })
	for _, name := range lasting() {
		if !strings.HasPrefix(name, k.begin) {
			t.Errorf("the key %s", name)
		}
	}
}
