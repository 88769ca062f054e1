package storetest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/redis"
	"github.com/koalagate/koalagate/internal/store/remote"
	"github.com/koalagate/koalagate/internal/store/rescue"
)

// Server is a redis-server for one test, on a unix socket. It ends with the test.
type Server struct {
	process
	program string
	socket  string
	opened  atomic.Int64
}

// StartServer starts a redis-server. The test fails if the program is not found.
func StartServer(t testing.TB) *Server {
	t.Helper()
	// Not t.TempDir: the path of a socket has at most 107 bytes.
	dir, err := os.MkdirTemp("", "koala")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{process: process{t: t}, program: find(t, "redis-server"), socket: filepath.Join(dir, "redis.sock")}
	t.Cleanup(func() {
		s.Kill()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	s.Start()
	return s
}

// find returns the path of a program on PATH or, if it is not there, in .tools next
// to go.mod, where make tools installs programs for tests.
func find(t testing.TB, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	dir, err := os.Getwd()
	for err == nil && dir != filepath.Dir(dir) {
		for _, folder := range []string{"bin", "usr/bin", "*/bin", "*/usr/bin"} {
			found, _ := filepath.Glob(filepath.Join(dir, ".tools", folder, name))
			if len(found) > 0 {
				return found[0]
			}
		}
		dir = filepath.Dir(dir)
	}
	t.Fatalf("%s is neither on PATH nor in .tools: install Redis 6.2 or newer (Debian: apt-get install redis-server), or run make tools", name)
	return ""
}

// Start starts the server without data, also after Kill.
func (s *Server) Start() {
	s.t.Helper()
	s.cmd = exec.Command(s.program, "--port", "0", "--unixsocket", s.socket,
		"--save", "", "--appendonly", "no", "--daemonize", "no", "--dir", filepath.Dir(s.socket))
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	client := s.Client()
	defer client.Close()
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		err := client.Ping(context.Background()).Err()
		if err == nil {
			return
		}
		if time.Since(begin) > patience {
			s.t.Fatalf("%s does not answer after %v: %v", s.program, patience, err)
		}
	}
}

// Kill ends the server at once, as a crash does.
func (s *Server) Kill() {
	s.process.Kill()
	_ = os.Remove(s.socket) // it may not exist
}

// URL returns the URL of the server for redis.Options and the command line.
func (s *Server) URL() string { return "unix://" + s.socket }

// Client returns a plain client of the server, for direct access to keys. The caller
// closes it.
func (s *Server) Client() *goredis.Client {
	return goredis.NewClient(&goredis.Options{Network: "unix", Addr: s.socket, DialerRetries: 1, ReadTimeout: patience})
}

// Open returns a store in the server under a new prefix. When the test ends, every
// key under the prefix must have an expiry.
func (s *Server) Open(t testing.TB, change ...func(*redis.Options)) *redis.Store {
	t.Helper()
	// The machine may be busy: the budget is a minute, and counters of plans with
	// their own clock outlive the real time between the plans.
	o := redis.Options{URL: s.URL(), Prefix: fmt.Sprintf("t%d", s.opened.Add(1)), Budget: time.Minute, Linger: time.Hour}
	for _, f := range change {
		f(&o)
	}
	r, err := redis.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.CheckExpiries(t, o.Prefix)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// CheckExpiries fails the test for every key under the prefix that Redis would
// keep forever.
func (s *Server) CheckExpiries(t testing.TB, prefix string) {
	t.Helper()
	client := s.Client()
	defer client.Close()
	ctx := context.Background()
	keys := client.Scan(ctx, 0, prefix+":*", 1000).Iterator()
	for keys.Next(ctx) {
		ttl, err := client.PTTL(ctx, keys.Val()).Result()
		if err != nil {
			t.Fatal(err)
		}
		if ttl == -1 { // -2: it expired meanwhile
			t.Errorf("the key %q has no expiry", keys.Val())
		}
	}
	if err := keys.Err(); err != nil {
		t.Fatal(err)
	}
}

// Redis starts a redis-server and returns a function that opens stores in it,
// each under a new prefix.
func Redis(t testing.TB, change ...func(*redis.Options)) func(t *testing.T) store.Store {
	t.Helper()
	server := StartServer(t)
	return func(t *testing.T) store.Store { return server.Open(t, change...) }
}

// OpenRescue returns a rescue store over Redis, which need not be reachable, and
// counters in process. All of them are closed when the test ends.
func OpenRescue(t testing.TB, o redis.Options, options rescue.Options) *rescue.Store {
	t.Helper()
	opened, err := remote.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	local := memory.New(memory.Options{})
	r := rescue.New(opened, local, options)
	t.Cleanup(func() {
		r.Close()
		local.Close()
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}
