package environ_test

import (
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/dropin/environ"
)

// load loads the settings that an environment means.
func load(t *testing.T, variables ...string) (*config.Loaded, error) {
	t.Helper()
	s, err := environ.Read(variables)
	if err != nil {
		return nil, err
	}
	base, err := s.Base()
	if err != nil {
		return nil, err
	}
	return config.Load(config.Input{Base: base, Environ: environ.Own(variables)})
}

func TestAddressesAndDefaults(t *testing.T) {
	l, err := load(t)
	if err != nil {
		t.Fatal(err)
	}
	if l.GRPCAddr != "0.0.0.0:8081" || l.HTTPAddr != "0.0.0.0:8080" || l.AdminAddr != "0.0.0.0:6070" || l.LogLevel != "warn" ||
		l.Redis.Reveal() != "unix:///var/run/nutcracker/ratelimit.sock" || l.KoalaAPI != "off" {
		t.Errorf("got %+v", l.Config)
	}
	l, err = load(t, "GRPC_UDS=/tmp/rl.sock", "HOST=::1", "PORT=0x10", "LOG_LEVEL=Trace", "LOG_FORMAT=json", "REDIS_PORT=tcp://10.0.0.1:6379", "NOBODY=1")
	if err != nil {
		t.Fatal(err)
	}
	if l.GRPCAddr != "unix:/tmp/rl.sock" || l.HTTPAddr != "[::1]:16" || l.LogLevel != "debug" || l.LogFormat != "json" {
		t.Errorf("got %+v", l.Config)
	}
}

func TestRedisAddresses(t *testing.T) {
	for _, c := range []struct {
		environ    []string
		url        string
		user, pass string
	}{
		{[]string{"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=redis:6379"}, "redis://redis:6379", "", ""},
		{[]string{"REDIS_SOCKET_TYPE=unix", "REDIS_URL=/run/r.sock"}, "unix:///run/r.sock", "", ""},
		{[]string{"REDIS_URL=redis://a:6379/1", "REDIS_AUTH=secret"}, "redis://a:6379/1", "", "secret"},
		{[]string{"REDIS_SOCKET_TYPE=tcp", "REDIS_TLS=true", "REDIS_URL=r:6379", "REDIS_AUTH=ann:se:cret"}, "rediss://r:6379", "ann", "se:cret"},
		{[]string{"REDIS_TYPE=cluster", "REDIS_URL=a:1,b:2"}, "redis-cluster://a:1,b:2", "", ""},
		{[]string{"REDIS_TYPE=Sentinel", "REDIS_URL=main,a:1,b:2", "REDIS_SENTINEL_AUTH=word"}, "redis-sentinel://a:1,b:2/main", "", ""},
	} {
		l, err := load(t, c.environ...)
		if err != nil {
			t.Errorf("%v: %v", c.environ, err)
			continue
		}
		if l.Redis.Reveal() != c.url || l.RedisUsername != c.user || l.RedisPassword.Reveal() != c.pass {
			t.Errorf("%v: got %s, %q, %q; want %+v", c.environ, l.Redis.Reveal(), l.RedisUsername, l.RedisPassword.Reveal(), c)
		}
	}
}

func TestAgesOfConnectionsAreBounded(t *testing.T) {
	for _, c := range []struct{ age, grace, wantAge, wantGrace string }{
		{"0", "0", "24h0m0s", "10m0s"},
		{"1ms", "1ms", "1s", "100ms"},
		{"300s", "30s", "5m0s", "30s"},
		{"48h", "1h", "24h0m0s", "10m0s"},
	} {
		l, err := load(t, "GRPC_MAX_CONNECTION_AGE="+c.age, "GRPC_MAX_CONNECTION_AGE_GRACE="+c.grace)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if l.GRPCMaxConnectionAge.String() != c.wantAge || l.GRPCMaxConnectionAgeGrace.String() != c.wantGrace {
			t.Errorf("%+v: got %v, %v", c, l.GRPCMaxConnectionAge, l.GRPCMaxConnectionAgeGrace)
		}
	}
	if _, err := load(t, "GRPC_MAX_CONNECTION_AGE=-1s"); err == nil || !strings.Contains(err.Error(), "GRPC_MAX_CONNECTION_AGE") {
		t.Errorf("a negative age: %v", err)
	}
}

func TestPausesAreBounded(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for _, c := range []struct {
		environ      []string
		initial, max time.Duration
	}{
		{nil, 10 * s, 60 * s},
		{[]string{"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL=0"}, 100 * ms, 60 * s},
		{[]string{"XDS_CLIENT_BACKOFF_MAX_INTERVAL=5s"}, 5 * s, 5 * s},
		{[]string{"XDS_CLIENT_BACKOFF_MAX_INTERVAL=-1s"}, 10 * s, 10 * s},
	} {
		set, err := environ.Read(c.environ)
		if err != nil {
			t.Errorf("%v: %v", c.environ, err)
		} else if set.XDS.Initial != c.initial || set.XDS.Max != c.max {
			t.Errorf("%v: got %v and %v; want %v and %v", c.environ, set.XDS.Initial, set.XDS.Max, c.initial, c.max)
		}
	}
}

func TestInvalidVariablesAreNamed(t *testing.T) {
	for _, c := range []struct{ variable, want string }{
		{"GRPC_PORT=many", `GRPC_PORT is "many"; want a port, 0 to 65535`},
		{"PORT=", `PORT is ""; want a port`},
		{"MERGE_DOMAIN_CONFIG=yes", `MERGE_DOMAIN_CONFIG is "yes"; want true or false`},
		{"STATS_FLUSH_INTERVAL=10", `STATS_FLUSH_INTERVAL is "10"; want a duration`},
		{"EXTRA_TAGS=a", `EXTRA_TAGS is "a"; want name:value`},
		{"CONFIG_TYPE=file", `CONFIG_TYPE is "file"; want FILE or GRPC_XDS_SOTW`},
		{"BACKEND_TYPE=memcache", "BACKEND_TYPE is memcache, which koalagate does not have"},
		{"BACKEND_TYPE=disk", `BACKEND_TYPE is "disk"; want redis`},
		{"USE_PROMETHEUS=true", "set USE_STATSD=false"},
		{"GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT"},
		{"LOG_LEVEL=loud", `LOG_LEVEL is "loud"`},
		{"NEAR_LIMIT_RATIO=2", "NEAR_LIMIT_RATIO is 2"},
		{"REDIS_TYPE=ring", `REDIS_TYPE is "ring"; want SINGLE, CLUSTER or SENTINEL`},
		{"KOALAGATE_RATELIMIT_WINDOWS=rolling", "want fixed or opening or sliding"},
		{"KOALAGATE_RATELIMIT_REFUSED=never", "want counted or free"},
		{"KOALAGATE_RATELIMIT_QUOTAS=some", "want all or groups"},
		{"KOALAGATE_RATELIMIT_SETTLE=maybe", "want true or false"},
		{"KOALAGATE_NOBODY=1", `unknown key "KOALAGATE_NOBODY"`},
	} {
		if _, err := load(t, c.variable); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v; want %s", c.variable, err, c.want)
		}
	}
}

func TestContradictionsNameBothVariables(t *testing.T) {
	_, err := load(t, "GRPC_PORT=8081", "KOALAGATE_GRPC_ADDR=127.0.0.1:9191")
	if err == nil || !strings.Contains(err.Error(), "environment GRPC_PORT and environment KOALAGATE_GRPC_ADDR") {
		t.Errorf("got %v", err)
	}
	if _, err := load(t, "GRPC_PORT=8081", "KOALAGATE_GRPC_ADDR=0.0.0.0:8081"); err != nil {
		t.Errorf("two equal values: %v", err)
	}
	l, err := load(t, "KOALAGATE_GRPC_ADDR=127.0.0.1:9191")
	if err != nil || l.GRPCAddr != "127.0.0.1:9191" {
		t.Errorf("got %v, %v; want the setting of koalagate in place of a default", l, err)
	}
}

func TestVariablesWithoutEffectAreNoted(t *testing.T) {
	variables := []string{"REDIS_PERSECOND=true", "LOCAL_CACHE_SIZE_IN_BYTES=100", "REDIS_POOL_SIZE=1"}
	s, err := environ.Read(variables)
	if err != nil {
		t.Fatal(err)
	}
	if notes := s.Ignored(variables); len(notes) != 3 {
		t.Errorf("got %q; want 3 notes", notes)
	}
}
