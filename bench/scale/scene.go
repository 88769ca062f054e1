package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/bench/process"
	"github.com/koalagate/koalagate/e2e"
)

// scene contains the programs under test.
type scene struct {
	stage *e2e.Stage
	rules string // the path of the rule file
}

// backend is what instances count in: one Redis, or the nodes of a Cluster.
type backend struct {
	name, url string
	nodes     []process.ID
}

func newScene(dir string) (*scene, error) {
	stage, err := e2e.NewStage(dir)
	if err != nil {
		return nil, err
	}
	s := &scene{stage: stage, rules: filepath.Join(dir, "scale.conf")}
	return s, os.WriteFile(s.rules, []byte(ruleText), 0o600)
}

// all measures everything that is selected.
func (s *scene) all(ctx context.Context, o *options, only *regexp.Regexp, r *results) error {
	for _, open := range []func(context.Context) (*backend, error){s.one, s.cluster} {
		b, err := open(ctx)
		if err != nil {
			return err
		}
		for kind := range kinds {
			for _, leases := range []bool{false, true} {
				section := b.section(&kinds[kind], leases)
				for _, size := range o.sizes {
					if !only.MatchString(fmt.Sprintf("%s, %s, %d", b.name, kinds[kind].name, size)) {
						continue
					}
					samples, err := s.measure(ctx, o, b, size, turn{kind, leases, o.span})
					if err != nil {
						return fmt.Errorf("%s, %s, %d instances: %w", b.name, kinds[kind].name, size, err)
					}
					section.Tables[0].Rows = append(section.Tables[0].Rows, row(size, samples))
					if len(b.nodes) == 1 && size == modelSize {
						r.bases = append(r.bases, base{&kinds[kind], leases, median(samples, instancesCPU), median(samples, redisCPU)})
					}
				}
				if len(section.Tables[0].Rows) > 0 {
					r.Add(*section)
				}
			}
		}
	}
	r.model()
	return nil
}

// one starts one Redis.
func (s *scene) one(context.Context) (*backend, error) {
	r, err := s.stage.Redis()
	if err != nil {
		return nil, err
	}
	return &backend{"one Redis", r.URL(), []process.ID{process.ID(r.PID())}}, nil
}

// clusterSize is the number of nodes of the Cluster.
const clusterSize = 3

// cluster starts a Redis Cluster without replicas. It needs Redis 7, which can be told the
// port of the bus.
func (s *scene) cluster(ctx context.Context) (*backend, error) {
	b := &backend{name: fmt.Sprintf("a Cluster of %d", clusterSize)}
	path, err := s.stage.Find("redis-server")
	if err != nil {
		return nil, err
	}
	addresses, buses := make([]string, clusterSize), make([]string, clusterSize)
	for i := range clusterSize {
		for _, address := range []*string{&addresses[i], &buses[i]} {
			if *address, err = e2e.FreeAddress(); err != nil {
				return nil, err
			}
		}
		p, err := s.stage.Start("redis-node", path, addresses[i], nil, "--port", portOf(addresses[i]), "--bind", "127.0.0.1", "--save", "",
			"--cluster-enabled", "yes", "--cluster-port", portOf(buses[i]), "--cluster-config-file", fmt.Sprintf("nodes-%d.conf", i))
		if err != nil {
			return nil, err
		}
		b.nodes = append(b.nodes, process.ID(p.PID()))
	}
	b.url = "redis-cluster://" + strings.Join(addresses, ",")
	return b, join(ctx, addresses, portOf(buses[0]))
}

// join makes the nodes a Cluster, whose first node has a bus at the port, and waits until
// each serves.
func join(ctx context.Context, addresses []string, bus string) error {
	const slots = 16384
	first := portOf(addresses[0])
	clients := make([]*goredis.Client, len(addresses))
	for i, address := range addresses {
		c := goredis.NewClient(&goredis.Options{Addr: address})
		defer c.Close()
		clients[i] = c
		if err := c.ClusterAddSlotsRange(ctx, slots*i/clusterSize, slots*(i+1)/clusterSize-1).Err(); err != nil {
			return err
		}
		if err := c.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return err
		}
	}
	for _, c := range clients[1:] {
		if err := c.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", first, bus).Err(); err != nil {
			return err
		}
	}
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) { //nolint:forbidigo // the nodes report nothing when they are ready
		ready := 0
		for _, c := range clients {
			info := c.ClusterInfo(ctx).Val()
			if strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", clusterSize)) {
				ready++
			}
		}
		if ready == clusterSize {
			return nil
		}
		if time.Since(begin) > time.Minute {
			return errors.New("the Cluster is not ready after a minute")
		}
	}
}

func portOf(address string) string {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return address // Redis then names it in its error
	}
	return port
}
