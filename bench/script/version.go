package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/koalagate/koalagate/bench/process"
	"github.com/koalagate/koalagate/bench/resp"
	"github.com/koalagate/koalagate/bench/traffic"
	"github.com/koalagate/koalagate/e2e"
)

// version is a binary of the service: its recorded scenes and the server that replays them.
type version struct {
	player     *player
	redis      string // the version of the server
	recordings map[string]*recording
}

// openVersion records the scenes whose rules the binary knows.
func (o *options) openVersion(ctx context.Context, stage *e2e.Stage, dir, binary string) (*version, error) {
	server, err := stage.Redis()
	if err != nil {
		return nil, err
	}
	v := &version{recordings: map[string]*recording{}}
	if v.player, err = newPlayer(ctx, process.ID(server.PID()), server.Address); err != nil {
		return nil, err
	}
	state, err := resp.StateOf(ctx, server.Address)
	if err != nil {
		return nil, err
	}
	v.redis = state.Version
	for i := range scenes {
		s := &scenes[i]
		if !o.only.MatchString(s.name()) {
			continue
		}
		if known, err := traffic.Knows(ctx, binary, s.kind.Names()...); err != nil {
			return nil, err
		} else if !known {
			continue
		}
		rules := filepath.Join(dir, "scene.conf")
		if err := os.WriteFile(rules, []byte(traffic.Rules(s.kind.Names()...)), 0o600); err != nil {
			return nil, err
		}
		err := errMixed
		for pause := firstPause; errors.Is(err, errMixed) && pause < firstPause<<attempts; pause *= 2 {
			v.recordings[s.name()], err = o.recordScene(ctx, stage, binary, rules, s, pause)
		}
		if err != nil {
			return nil, fmt.Errorf("recording %s: %w", s.name(), err)
		}
	}
	return v, nil
}

// recordScene starts a service with a Redis behind a proxy, and records what it sends.
func (o *options) recordScene(ctx context.Context, stage *e2e.Stage, binary, rules string, s *scene, pause time.Duration) (*recording, error) {
	redis, err := stage.Redis()
	if err != nil {
		return nil, err
	}
	proxy, err := listen(ctx, redis.Address)
	if err != nil {
		return nil, err
	}
	// Refusals that the service remembers would not reach Redis.
	service, err := stage.Koalagate(binary, []string{"KOALAGATE_REDIS_BUDGET=10s", "KOALAGATE_REDIS_REFUSALS=0"},
		"--rules", rules, "--redis", "redis://"+proxy.listener.Addr().String())
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(service.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	r := &recorder{proxy: proxy, client: rlsv3.NewRateLimitServiceClient(conn), size: o.batch, pause: pause}
	made, err := r.record(ctx, s, o.batches)
	proxy.close()
	return made, errors.Join(err, service.Stop(), redis.Stop())
}
