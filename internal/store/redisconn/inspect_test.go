package redisconn_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/redisconn"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

func TestInspect(t *testing.T) {
	node := storetest.StartNode(t, goredis.Options{})
	grant := func(rules ...any) { node.MustDo(append([]any{"ACL", "SETUSER", "koalagate"}, rules...)...) }
	set := func(setting, value string) { node.MustDo("CONFIG", "SET", setting, value) }
	grant("on", ">secret", "~koala:*", "+@all")
	r, err := redis.Open(redis.Options{URL: "redis://koalagate:secret@" + node.Address, Budget: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const nothing = "it keeps nothing on disk"
	for _, c := range []struct {
		name   string
		change func()
		want   []string // a warning begins with !
	}{
		{"the settings of the tests", func() {}, []string{nothing}},
		{"maxmemory without eviction", func() { set("maxmemory", "1gb") }, []string{nothing}},
		{"eviction", func() { set("maxmemory-policy", "volatile-ttl") }, []string{"!maxmemory-policy is volatile-ttl", nothing}},
		{"eviction without maxmemory", func() { set("maxmemory", "0") }, []string{nothing}},
		{"snapshots", func() { set("save", "3600 1") }, []string{"stop-writes-on-bgsave-error is yes"}},
		{"a disk write per call", func() { set("save", ""); set("appendonly", "yes"); set("appendfsync", "always") }, []string{"!appendfsync is always"}},
		{"no permission for CONFIG", func() { grant("-config") }, []string{"its user may not call CONFIG GET"}},
		{"no permission for INFO", func() { grant("-info") }, []string{"its user may not call INFO"}},
		{"a replica", func() { grant("+info"); node.MustDo("REPLICAOF", "127.0.0.1", "1") }, []string{"!it is a replica", "its user may not call CONFIG GET"}},
	} {
		c.change()
		got, err := r.Inspect(context.Background())
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if !slices.EqualFunc(got, c.want, func(f redisconn.Finding, want string) bool {
			text, warns := strings.CutPrefix(want, "!")
			return f.Warning == warns && strings.HasPrefix(f.Text, text)
		}) {
			t.Errorf("%s: found %+v, want %q", c.name, got, c.want)
		}
	}
	for version, old := range map[string]bool{"5.0.14": true, "6.0.16": true, "6.2.0": false, "7.0.15": false, "8.2": false, "10.0.1": false, "": false} {
		if redisconn.TooOld(version) != old {
			t.Errorf("version %q: too old is %v", version, !old)
		}
	}
}
