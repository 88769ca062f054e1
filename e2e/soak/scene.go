package main

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/koalagate/koalagate/e2e"
)

// limit is the number of requests that a user has per hour, by the rule that the ledger
// checks.
const limit = 5

// ruleText is the rule file. %d changes with every reload; it is the count of a rule
// that no request matches.
const ruleText = `
[params]
uid : header X-User-Id else client-ip
[rules]
rule : [direct] [host=blocked.example] [] [result=2; return=101]
rule : [count] [uid=+] [time=3600; count=5] [result=2; return=201]
rule : [token] [path=/unused] [time=60; count=%d] [result=2; return=202]
rule : [leak] [uid=+; path=/leak] [time=60; count=3] [result=2; return=203]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// scene is the running programs and what happens to them.
type scene struct {
	stage     *e2e.Stage
	dir       string
	rules     string
	offset    string // file with the offset of Redis's clock, in seconds
	app       *e2e.App
	instances []*e2e.Koalagate

	mu       sync.Mutex
	redis    *e2e.Redis
	gateways []*e2e.Gateway // Envoy, nginx
	events   map[string]int
	faults   []string

	ledger  ledger
	samples [2][]sample // per instance
}

func start(stage *e2e.Stage, dir, koalagate string) (*scene, error) {
	s := &scene{stage: stage, dir: dir, rules: filepath.Join(dir, "rules.conf"), events: make(map[string]int)}
	if err := s.openClock(); err != nil {
		return nil, err
	}
	if err := s.writeRules(1); err != nil {
		return nil, err
	}
	var err error
	if s.redis, err = stage.Redis(); err != nil {
		return nil, err
	}
	if s.app, err = stage.App(); err != nil {
		return nil, err
	}
	for range s.samples {
		k, err := stage.Koalagate(koalagate, nil, "--rules", s.rules, "--redis", s.redis.URL())
		if err != nil {
			return nil, err
		}
		s.instances = append(s.instances, k)
	}
	envoy, err := stage.Envoy(s.app, s.instances...)
	if err != nil {
		return nil, err
	}
	nginx, err := stage.Nginx(s.app, s.instances...)
	s.gateways = []*e2e.Gateway{envoy, nginx}
	return s, err
}

//go:embed redis/clock.c
var clockSource []byte

// openClock starts Redis from now on with a wall clock that setClock sets.
func (s *scene) openClock() error {
	source, library := filepath.Join(s.dir, "clock.c"), filepath.Join(s.dir, "clock.so")
	if err := os.WriteFile(source, clockSource, 0o600); err != nil {
		return err
	}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
		return fmt.Errorf("compiling the clock of Redis; install a C compiler: %w\n%s", err, out)
	}
	s.offset = filepath.Join(s.dir, "offset")
	if err := os.WriteFile(s.offset, make([]byte, 8), 0o600); err != nil {
		return err
	}
	s.stage.RedisEnviron = []string{"LD_PRELOAD=" + library, "SOAK_CLOCK=" + s.offset}
	return nil
}

// setClock sets the offset of Redis's clock.
func (s *scene) setClock(offset time.Duration) error {
	file, err := os.OpenFile(s.offset, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(binary.NativeEndian.AppendUint64(nil, uint64(int64(offset.Seconds()))))
	return errors.Join(err, file.Close())
}

func (s *scene) writeRules(n int) error { return e2e.ReplaceFile(s.rules, fmt.Sprintf(ruleText, n)) }

// event counts an event for the report, and its error as a fault.
func (s *scene) event(name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events[name]++
	if err != nil {
		s.faults = append(s.faults, fmt.Sprintf("%s: %s: %v", time.Now().UTC().Format(time.TimeOnly), name, err))
	}
}

// gateway returns the URL of a gateway: 0 is Envoy, 1 nginx.
func (s *scene) gateway(i int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gateways[i].URL
}

// every calls f at intervals until ctx is done.
func every(ctx context.Context, interval time.Duration, f func(n int)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f(n)
		}
	}
}
