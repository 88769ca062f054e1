// Command demo starts Redis, two instances of koalagate, Envoy and nginx in front of
// a small application, all on free loopback ports. It prints curl commands, and
// stops everything on ^C.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/koalagate/koalagate/e2e"
)

// rules is the rule file of the demo, and binary the output of `make build`.
const (
	rules  = "examples/gateway.conf"
	binary = "bin/koalagate"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)

	dir, err := os.MkdirTemp("", "koalagate-demo")
	if err != nil {
		return err
	}
	stage, err := e2e.NewStage(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.Close(), os.RemoveAll(dir)) }()
	stage.TrustUsers(true) // the printed commands use several users

	s, err := start(stage)
	if err != nil {
		return err
	}
	s.print(dir)
	<-stop
	fmt.Println("\nstopping")
	return nil
}

// scene contains the running programs.
type scene struct {
	redis        *e2e.Redis
	instances    []*e2e.Koalagate
	envoy, nginx *e2e.Gateway
}

func start(stage *e2e.Stage) (*scene, error) {
	redis, err := stage.Redis()
	if err != nil {
		return nil, err
	}
	s := &scene{redis: redis}
	for range 2 {
		k, err := stage.Koalagate(stage.Path(binary), nil, "--rules", stage.Path(rules), "--redis", redis.URL())
		if err != nil {
			return nil, err
		}
		s.instances = append(s.instances, k)
	}
	app, err := stage.App()
	if err != nil {
		return nil, err
	}
	if s.envoy, err = stage.Envoy(app, s.instances...); err != nil {
		return nil, err
	}
	s.nginx, err = stage.Nginx(app, s.instances...)
	return s, err
}

func (s *scene) print(dir string) {
	fmt.Printf(`
Redis      %s
koalagate  http://%s   (readiness and metrics: http://%s/readyz, /metrics)
koalagate  http://%s   (readiness and metrics: http://%s/readyz, /metrics)
Envoy      %s
nginx      %s
logs       %s

Four comments in 90 seconds, through either gateway; the fifth is a 429:

  for gateway in %[6]s %[7]s %[6]s %[7]s %[6]s; do curl -si $gateway/api/comments -H 'X-User-Id: ann' -d hello | grep -iE '^(HTTP|RateLimit:|Retry-After)'; done

Twenty downloads per minute and address; the gateway's configuration defines what a download is:

  for i in $(seq 21); do curl -so /dev/null -w '%%{http_code} ' %[7]s/downloads/file; done

The same counters through Koala's API:

  curl -s 'http://%[2]s/rule/take?act=comment&uid=bob'

The rules are in %[9]s: change a count, save, and run curl again. ^C stops everything.

`, s.redis.Address, s.instances[0].HTTP, s.instances[0].Admin, s.instances[1].HTTP, s.instances[1].Admin,
		s.envoy.URL, s.nginx.URL, dir, rules)
}
