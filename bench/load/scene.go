package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/koalagate/koalagate/bench/process"
	"github.com/koalagate/koalagate/bench/traffic"
	"github.com/koalagate/koalagate/e2e"
)

// scene contains the programs under test, each in its own process. Each program that
// counts in Redis has its own Redis.
type scene struct {
	stage  *e2e.Stage
	dir    string
	binary string // koalagate
	rules  string // the path of the rule file
}

func newScene(dir string) (*scene, error) {
	stage, err := e2e.NewStage(dir)
	if err != nil {
		return nil, err
	}
	s := &scene{
		stage: stage, dir: dir, binary: filepath.Join(dir, "koalagate"),
		rules: filepath.Join(dir, "bench.conf"),
	}
	if err := os.WriteFile(s.rules, []byte(traffic.Rules()), 0o600); err != nil {
		return nil, err
	}
	return s, stage.BuildRelease(s.binary)
}

// instance is a running service with the addresses of its doors.
type instance struct {
	name                  string
	service, redis        process.ID
	redisAddress          string
	grpc, http, adminAddr string
	counts                bool   // its allocations
	tally                 *tally // of its instructions, nil for none
}

// door returns one of the instance's doors as a subject.
func (i *instance) door(open func(ctx context.Context, t traffic.Kind, callers int) ([]ask, func(), error)) *subject {
	s := &subject{name: i.name, service: i.service, tally: i.tally, net: i.tally != nil, redis: i.redis, redisAddress: i.redisAddress, open: open}
	if i.counts {
		s.admin = i.adminAddr
	}
	return s
}

func (i *instance) rateLimit() *subject {
	return i.door(func(ctx context.Context, t traffic.Kind, callers int) ([]ask, func(), error) {
		return askRateLimit(ctx, i.grpc, t, callers)
	})
}

func (i *instance) authorization() *subject {
	return i.door(func(ctx context.Context, t traffic.Kind, callers int) ([]ask, func(), error) {
		return askAuthorization(ctx, i.grpc, t, callers)
	})
}

func (i *instance) web(request string) *subject {
	return i.door(func(ctx context.Context, t traffic.Kind, callers int) ([]ask, func(), error) {
		return askHTTP(ctx, i.http, request, t, callers)
	})
}

// redis starts a Redis for an instance.
func (s *scene) redis(i *instance) error {
	r, err := s.stage.Redis()
	if err != nil {
		return err
	}
	i.redis, i.redisAddress = process.ID(r.PID()), r.Address
	return nil
}

// koalagate starts an instance with default settings except those in env,
// `KOALAGATE_…=…`, with or without a Redis.
func (s *scene) koalagate(name string, withRedis bool, env ...string) (*instance, error) {
	return s.koalagateOf(s.binary, s.rules, name, withRedis, env...)
}

// koalagateOf starts an instance of a binary with a rule file.
func (s *scene) koalagateOf(binary, rules, name string, withRedis bool, env ...string) (*instance, error) {
	i := &instance{name: name}
	args := []string{"--rules", rules}
	if withRedis {
		if err := s.redis(i); err != nil {
			return nil, err
		}
		// On a busy machine the rescue store would otherwise answer instead of
		// Redis, and look fast.
		args = append(args, "--redis", "redis://"+i.redisAddress)
		env = append(env, "KOALAGATE_REDIS_BUDGET=5s")
	}
	k, err := s.stage.Koalagate(binary, env, args...)
	if err != nil {
		return nil, err
	}
	i.service, i.grpc, i.http, i.adminAddr = process.ID(k.PID()), k.GRPC, k.HTTP, k.Admin
	return i, nil
}

// constant starts the server with constant answers, which is this program. Its HTTP
// answers have the headers of the answer at the URL like; "" for none.
func (s *scene) constant(name, like string) (*instance, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	i := &instance{name: name}
	for _, address := range []*string{&i.grpc, &i.http} {
		if *address, err = e2e.FreeAddress(); err != nil {
			return nil, err
		}
	}
	p, err := s.stage.Start("constant", self, i.http, nil, "-constant", i.grpc+","+i.http, "-like", like)
	if err != nil {
		return nil, err
	}
	i.service = process.ID(p.PID())
	return i, nil
}

// peerEnviron writes the limits of envoyproxy/ratelimit, and returns the variables with
// which it counts them in the Redis of an instance.
func (s *scene) peerEnviron(i *instance) ([]string, error) {
	folder := filepath.Join(s.dir, "peer", "ratelimit", "config")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(folder, "bench.yaml"), []byte(traffic.PeerConfig()), 0o600); err != nil {
		return nil, err
	}
	return []string{
		"USE_STATSD=false", "LOG_LEVEL=error", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + i.redisAddress,
		"RUNTIME_ROOT=" + filepath.Join(s.dir, "peer"), "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false",
	}, nil
}

// asRateLimit starts koalagate in the place of envoyproxy/ratelimit, with its limits.
func (s *scene) asRateLimit(name string) (*instance, error) {
	i := &instance{name: name}
	if err := s.redis(i); err != nil {
		return nil, err
	}
	env, err := s.peerEnviron(i)
	if err != nil {
		return nil, err
	}
	// The log shows the addresses. The budget equals the other instances'.
	k, err := s.stage.RateLimit(s.binary, append(env, "LOG_LEVEL=info", "KOALAGATE_REDIS_BUDGET=5s")...)
	if err != nil {
		return nil, err
	}
	i.service, i.grpc, i.http, i.adminAddr = process.ID(k.PID()), k.GRPC, k.HTTP, k.Admin
	return i, nil
}

// envoyRateLimit starts the binary of envoyproxy/ratelimit with its default settings,
// except for the addresses and the statistics sent over the network.
func (s *scene) envoyRateLimit(binary string) (*instance, error) {
	i := &instance{name: "envoyproxy/ratelimit"}
	if err := s.redis(i); err != nil {
		return nil, err
	}
	env, err := s.peerEnviron(i)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"", "DEBUG_", "GRPC_"} {
		if i.grpc, err = e2e.FreeAddress(); err != nil {
			return nil, err
		}
		host, port, err := net.SplitHostPort(i.grpc)
		if err != nil {
			return nil, err
		}
		env = append(env, fmt.Sprintf("%sHOST=%s", name, host), fmt.Sprintf("%sPORT=%s", name, port))
	}
	p, err := s.stage.Start("ratelimit", binary, i.grpc, env)
	if err != nil {
		return nil, err
	}
	i.service = process.ID(p.PID())
	return i, nil
}
