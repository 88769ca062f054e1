// Command demo starts Redis, two instances of koalagate, Envoy and nginx in front of
// a small application, on the ports of the samples where these are free. It prints what
// the rules count, offers drills, and stops everything on ^C.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/koalagate/koalagate/e2e"
)

var (
	binary   = flag.String("koalagate", "bin/koalagate", "`FILE` of the service; the default is the output of make build")
	isTested = flag.Bool("test", false, "use any free ports, and gateways that wait long for koalagate")
)

func main() {
	flag.Parse()
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
	if stage.BePatient(*isTested); !*isTested {
		stage.PreferSamplePorts()
	}

	s := &scene{stage: stage, dir: dir, rules: filepath.Join(dir, "rules.conf")}
	if err := s.start(); err != nil {
		return err
	}
	s.print(os.Stdout)
	s.serve(stop)
	fmt.Println("\nstopping")
	return nil
}

// serve prints counters and carries out drills until a signal arrives, or the user quits.
func (s *scene) serve(stop <-chan os.Signal) {
	keys := make(chan string)
	go func() { // ends with the process: reading a terminal cannot be interrupted
		defer close(keys)
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			keys <- lines.Text()
		}
	}()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			s.printCounts()
		case key, open := <-keys:
			switch {
			case !open:
				keys = nil // without a terminal, the demo runs until a signal
			case key == "q":
				return
			default:
				s.drill(key)
			}
		}
	}
}

// instances is the number of instances of koalagate.
const instances = 2

// scene contains the running programs.
type scene struct {
	stage        *e2e.Stage
	dir          string
	rules        string // the rule file, a copy of the sample
	redis        *e2e.Redis
	isRedisDown  bool
	instances    []*e2e.Koalagate
	envoy, nginx *e2e.Gateway
	known        [instances]map[string]count // the last counts that each instance has reported
	shown        map[string]count            // the counts that were printed last
}

func (s *scene) start() (err error) {
	if err := s.copyRules(); err != nil {
		return err
	}
	if s.redis, err = s.stage.Redis(); err != nil {
		return err
	}
	for i := range instances {
		env := []string{"KOALAGATE_DECISION_LOG=" + s.decisions(i), "KOALAGATE_DECISION_LOG_PARAMS=all"}
		k, err := s.stage.Koalagate(s.program(), env, "--rules", s.rules, "--redis", s.redis.URL())
		if err != nil {
			return err
		}
		s.instances = append(s.instances, k)
	}
	app, err := s.stage.App()
	if err != nil {
		return err
	}
	if s.envoy, err = s.stage.Envoy(app, s.instances...); err != nil {
		return err
	}
	s.nginx, err = s.stage.Nginx(app, s.instances...)
	return err
}

// program returns the path of the service.
func (s *scene) program() string {
	if filepath.IsAbs(*binary) {
		return *binary
	}
	return s.stage.Path(*binary)
}

// decisions returns the name of the decision log of an instance.
func (s *scene) decisions(instance int) string {
	return filepath.Join(s.dir, fmt.Sprintf("decisions-%d.jsonl", instance+1))
}

// copyRules copies the sample rules and their word list into the demo's folder, where
// drills change them.
func (s *scene) copyRules() error {
	if err := os.Mkdir(filepath.Join(s.dir, "lists"), 0o700); err != nil {
		return err
	}
	for from, to := range map[string]string{"examples/gateway.conf": s.rules, "examples/lists/blocked.dat": filepath.Join(s.dir, "lists", "blocked.dat")} {
		if err := copyFile(s.stage.Path(from), to); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

func (s *scene) print(w io.Writer) {
	fmt.Fprintf(w, `
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

The rules are in %[9]s: change a count, save, and run curl again.
Below, this terminal shows what the rules admit and refuse. Type a key and Enter:

%[10]s
`, s.redis.Address, s.instances[0].HTTP, s.instances[0].Admin, s.instances[1].HTTP, s.instances[1].Admin,
		s.envoy.URL, s.nginx.URL, s.dir, s.rules, keysHelp)
}
