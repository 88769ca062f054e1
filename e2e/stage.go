// Package e2e sets a stage of real programs on this machine: Redis, instances
// of koalagate, Envoy, nginx, and a small application behind them. Its tests
// tell stories on it, and the demo is one for people.
//
// Everything listens on loopback, on ports that were free, and is ended by
// Close.
package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// The bounds of every program: how long it may take until it answers, and how
// long until it has ended after SIGTERM.
const (
	startTimeout = 60 * time.Second
	stopTimeout  = 20 * time.Second
)

// Stage is a set of programs that are started, and ended, together.
type Stage struct {
	root     string // of the module: where the samples lie
	dir      string // for logs and what the programs write
	programs []*Program
	closers  []func()
	// isPatient tells that gateways give koalagate longer than their samples say.
	isPatient bool
}

// NewStage sets an empty stage. Programs write into dir.
func NewStage(dir string) (*Stage, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	return &Stage{root: root, dir: dir}, nil
}

// Path is the path of a file of the module.
func (s *Stage) Path(name string) string { return filepath.Join(s.root, filepath.FromSlash(name)) }

// Programs are the programs that were started, the first one first.
func (s *Stage) Programs() []*Program { return s.programs }

// Close ends all programs, the last one first, and tells of those that did not
// end well.
func (s *Stage) Close() error {
	var all []error
	for _, p := range slices.Backward(s.programs) {
		all = append(all, p.Stop())
	}
	for _, end := range slices.Backward(s.closers) {
		end()
	}
	return errors.Join(all...)
}

// Find finds a program that tests need: on PATH, or in .tools/bin, where
// `make tools` puts what it fetches.
func (s *Stage) Find(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	path := s.Path(".tools/bin/" + name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is neither on PATH nor in .tools/bin; `make tools` finds or fetches it", name)
	}
	return path, nil
}

// fileName is the path of a file of the stage's own.
func (s *Stage) fileName(format string, args ...any) string {
	return filepath.Join(s.dir, fmt.Sprintf(format, args...))
}

// sample reads a sample of the module and replaces addresses, ports and paths
// in it. Each pair is what stands in the sample exactly once, and what to put
// there.
func (s *Stage) sample(name string, pairs ...[2]string) (string, error) {
	text, err := os.ReadFile(s.Path(name))
	if err != nil {
		return "", err
	}
	out := string(text)
	for _, p := range pairs {
		if n := strings.Count(out, p[0]); n != 1 {
			return "", fmt.Errorf("%s: %q stands there %d times; the stage replaces it where it stands once", name, p[0], n)
		}
		out = strings.Replace(out, p[0], p[1], 1)
	}
	if s.isPatient {
		return unhurried(name, out)
	}
	return out, nil
}

// moduleRoot is the nearest folder upwards that holds the service. Tests may be
// modules of their own below it.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "cmd", "koalagate")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("there is no cmd/koalagate here or above; run this inside the module")
		}
		dir = up
	}
}

// given are the ports that freePort has given: their programs may not listen yet,
// or have ended, so that others are to find nobody there.
var given sync.Map

// freePort is a port that nobody listens at, below those that outgoing
// connections are given, so that none of them takes it before its program does.
// It gives each port once.
func freePort() (int, error) {
	const first, count = 20_000, 10_000
	for range 200 {
		port := first + rand.IntN(count)
		if _, taken := given.LoadOrStore(port, true); taken {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			given.Delete(port)
			continue
		}
		return port, l.Close()
	}
	return 0, fmt.Errorf("no free port between %d and %d", first, first+count)
}

// eventually asks until the answer is nil, for at most startTimeout, or until
// the program that is asked about has ended.
func eventually(p *Program, ask func() error) error {
	deadline := time.After(startTimeout)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s has ended (%w) before it answered:\n%s", p.Name, p.endedWith(), p.Log())
		case <-deadline:
			return fmt.Errorf("%s does not answer after %v: %w\n%s", p.Name, startTimeout, err, p.Log())
		case <-tick.C:
		}
	}
}

// Start starts a program of any kind that serves on an address, and waits until
// it accepts connections there.
func (s *Stage) Start(name, path, address string, env []string, args ...string) (*Program, error) {
	p, err := s.start(name, path, env, args...)
	if err != nil {
		return nil, err
	}
	return p, eventually(p, func() error {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

// FreeAddress is an address of loopback that nobody listens at.
func FreeAddress() (string, error) {
	port, err := freePort()
	return fmt.Sprintf("127.0.0.1:%d", port), err
}

// Script starts a script of the module that serves on the addresses that GRPC,
// HTTP and ADMIN name: free ones.
func (s *Stage) Script(name string, env ...string) (*Program, error) {
	for _, address := range []string{"GRPC", "HTTP", "ADMIN"} {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		env = append(env, fmt.Sprintf("%s=127.0.0.1:%d", address, port))
	}
	return s.start(filepath.Base(name), s.Path(name), env)
}
