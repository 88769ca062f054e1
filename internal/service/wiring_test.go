package service

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/metrics"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/koala"
	"github.com/koalagate/koalagate/rules"
)

// Package config imports no other package, and repeats their defaults.
func TestDefaultsAreThoseOfThePackages(t *testing.T) {
	d := config.Default()
	if o := redisOptions(&d); o.Batching != redis.BatchScript || o.Refusals != redis.DefaultRefusals {
		t.Errorf("%s, %d refusals; want %s and %d", o.Batching, o.Refusals, redis.BatchScript, redis.DefaultRefusals)
	}
	if off := (config.Config{}); redisOptions(&off).Refusals >= 0 {
		t.Error("0 refusals are some")
	}
	if d.RedisPrefix != redis.DefaultPrefix || d.RedisBudget != redis.DefaultBudget || d.Timezone != rules.DefaultTimezone {
		t.Errorf("%s %s %s; want %s %s %s", d.RedisPrefix, d.RedisBudget, d.Timezone, redis.DefaultPrefix, redis.DefaultBudget, rules.DefaultTimezone)
	}
	if d.MaxIdentities != memory.DefaultMaxIdentities {
		t.Errorf("%d identities; want %d", d.MaxIdentities, memory.DefaultMaxIdentities)
	}
}

func TestEveryDoorHasAMode(t *testing.T) {
	for _, door := range doorname.Served() {
		loaded, err := config.Load(config.Input{Flags: map[string]any{"modes": []string{door + "=off"}}})
		if err != nil {
			t.Error(err)
			continue
		}
		if got := startModes(&loaded.Config, metrics.New(metrics.Build{}), slog.New(slog.DiscardHandler)).Of(door); got != engine.ModeOff {
			t.Errorf("%s is in mode %s; want off", door, got)
		}
	}
}

func TestKoalaAccess(t *testing.T) {
	for _, c := range []struct {
		setting string
		isLocal bool
		want    koala.Access
	}{
		{"auto", true, koala.Full},
		{"auto", false, koala.Read},
		{"full", false, koala.Full},
		{"read", true, koala.Read},
		{"off", true, koala.Off},
	} {
		if got := koalaAccess(c.setting, c.isLocal); got != c.want {
			t.Errorf("%s, local %v: %s; want %s", c.setting, c.isLocal, got, c.want)
		}
	}
}

func TestPrefixes(t *testing.T) {
	got := prefixes([]string{"10.1.2.3/8", "192.0.2.1", "::1", "2001:db8::/32", "::ffff:10.0.0.1", "::ffff:10.9.0.0/112", "::ffff:0:0/90"})
	want := []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.1/32"),
		netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("2001:db8::/32"),
		netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("10.9.0.0/16"), netip.MustParsePrefix("::ffff:0:0/90").Masked(),
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v; want %v", got, want)
	}
	if prefixes(nil) == nil {
		t.Error("an empty list must not be nil, which means the default of the door")
	}
}

func TestListenReportsLocalAddresses(t *testing.T) {
	for address, local := range map[string]bool{
		"127.0.0.1:0": true, "[::1]:0": true, "localhost:0": true,
		"unix:" + filepath.Join(t.TempDir(), "s"): true,
		"0.0.0.0:0": false, ":0": false,
	} {
		l, err := listen(t.Context(), address, false)
		if err != nil {
			t.Fatal(err)
		}
		if isLocal(l) != local {
			t.Errorf("%s: local is %v; want %v", address, !local, local)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestSocketsHaveTheConfiguredPermissions(t *testing.T) {
	dir := t.TempDir()
	c := config.Default()
	c.GRPCAddr, c.HTTPAddr, c.AdminAddr = "unix:"+filepath.Join(dir, "g"), "unix:"+filepath.Join(dir, "h"), "unix:"+filepath.Join(dir, "a")
	c.UnixSocketMode = "0620"
	l, err := listenAll(t.Context(), &c, false)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	for _, name := range []string{"g", "h", "a"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o620 {
			t.Errorf("%s has the permissions %o; want 620", name, got)
		}
	}
}

func TestListenTakesOnlyAbandonedSockets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first, err := listen(t.Context(), "unix:"+path, false)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := listen(t.Context(), "unix:"+path, false); err == nil {
		l.Close()
		t.Fatal("took the socket of a live process")
	}
	killed := first.(*gentleUnixListener).UnixListener
	killed.SetUnlinkOnClose(false) // as if the process were killed
	if err := killed.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := listen(t.Context(), "unix:"+path, false)
	if err != nil {
		t.Fatalf("did not take the socket of a killed process: %v", err)
	}
	again.Close()
}

func TestStatus(t *testing.T) {
	loaded := reload.State{Generation: 2, Hash: "abc", Rules: 3, LastError: "rules.conf:1:1: error"}
	for _, c := range []struct {
		name       string
		state      reload.State
		isDraining bool
		ready      bool
		reason     string
	}{
		{"before the rules", reload.State{}, false, false, "the rules are not loaded"},
		{"with older rules", loaded, false, true, ""},
		{"going away", loaded, true, false, "draining"},
	} {
		got := status(c.state, "memory", "", c.isDraining)
		if got.Ready != c.ready || got.Reason != c.reason || got.LastError != c.state.LastError || got.Generation != c.state.Generation {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// During a drain, answers ask callers to close their connections, and new connections
// are still accepted, so that none is closed while a request is on its way.
func TestDrainMakesCallersCloseConnections(t *testing.T) {
	var draining atomic.Bool
	s := httptest.NewServer(closeWhileDraining(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), &draining))
	defer s.Close()
	ask := func() bool {
		reply, err := s.Client().Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Body.Close()
		return reply.Close
	}
	if ask() {
		t.Error("a connection is closed before the drain")
	}
	draining.Store(true)
	if !ask() {
		t.Error("a connection is kept in the drain")
	}
}
