// Package e2e runs real programs on this machine for end-to-end tests and the
// demo: Redis, instances of koalagate, gateways, and a small application behind
// them.
//
// All programs listen on free loopback ports, and Close stops them.
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
	"syscall"
	"time"
)

// The maximum times of every program from its start to its first answer, and from
// SIGTERM to its exit.
const (
	startTimeout = 60 * time.Second
	stopTimeout  = 20 * time.Second
)

// Stage is a set of programs with a common folder that are stopped together.
type Stage struct {
	root     string // of the module, with the samples
	dir      string // for logs and other files of the programs
	programs []*Program
	closers  []func()
	// isPatient makes gateways wait longer for koalagate than their samples do.
	isPatient bool
	// RedisEnviron is added to the environment of Redis servers.
	RedisEnviron []string
	// trustsUsers makes gateways trust the X-User-Id of their clients.
	trustsUsers bool
	// users are the users whom gateways authenticate; nil if they authenticate nobody.
	users []string
	// tls is how gateways accept TLS; nil for plain text.
	tls *listenerTLS
	// prefersSamplePorts makes programs listen on the ports of their samples.
	prefersSamplePorts bool
}

// NewStage returns an empty stage. Programs write into dir.
func NewStage(dir string) (*Stage, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	return &Stage{root: root, dir: dir}, nil
}

// Path returns the path of a file of the module.
func (s *Stage) Path(name string) string { return filepath.Join(s.root, filepath.FromSlash(name)) }

// Programs returns the started programs, the first one first.
func (s *Stage) Programs() []*Program { return s.programs }

// Close stops all programs, the last one first. It returns the errors of their
// Stop.
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

// Find returns the path of a program: on PATH, or in .tools/bin, where `make tools`
// puts its downloads.
func (s *Stage) Find(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	path := s.Path(".tools/bin/" + name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is neither on PATH nor in .tools/bin; run `make tools`", name)
	}
	return path, nil
}

// fileName returns the path of a file in the stage's folder.
func (s *Stage) fileName(format string, args ...any) string {
	return filepath.Join(s.dir, fmt.Sprintf(format, args...))
}

// sample reads a sample of the module and replaces addresses, ports and paths in
// it. Each pair is a text that occurs in the sample exactly once, and its
// replacement.
func (s *Stage) sample(name string, pairs ...[2]string) (string, error) {
	text, err := os.ReadFile(s.Path(name))
	if err != nil {
		return "", err
	}
	out := string(text)
	for _, p := range pairs {
		if out, err = replaceOnce(name, out, p[0], p[1]); err != nil {
			return "", err
		}
	}
	if s.tls != nil {
		if out, err = s.withTLS(name, out); err != nil {
			return "", err
		}
	}
	switch {
	case s.users != nil:
		out, err = s.withAuthentication(name, out)
	case s.trustsUsers:
		out, err = withUsers(name, out)
	}
	if err != nil {
		return "", err
	}
	if s.isPatient {
		return WithLongTimeouts(name, out)
	}
	return out, nil
}

// replaceOnce replaces a text that occurs once in the sample of that name.
func replaceOnce(name, text, from, to string) (string, error) {
	if n := strings.Count(text, from); n != 1 {
		return "", fmt.Errorf("%s: %q occurs %d times; want once", name, from, n)
	}
	return strings.Replace(text, from, to, 1), nil
}

// moduleRoot returns the nearest parent folder with the service. Tests may be in
// modules below it.
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
			return "", errors.New("no cmd/koalagate in this folder or its parents; run this inside the module")
		}
		dir = up
	}
}

// assigned contains the ports that freePort has returned. Their programs may not
// listen yet, or may have exited so that tests find no listener there.
var assigned sync.Map

// ownPorts returns the first of the ports of this process, which has them until it ends: the
// programs of another process on this machine may not listen yet. Above a few processes
// at a time, the others share ports.
var ownPorts = sync.OnceValue(func() int {
	for i := range portRanges {
		name := filepath.Join(os.TempDir(), fmt.Sprintf("koalagate-ports-%d.lock", i))
		fd, err := syscall.Open(name, syscall.O_CREAT|syscall.O_RDWR|syscall.O_CLOEXEC, 0o600)
		if err != nil {
			continue
		}
		if syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			return firstPort + i*portCount // the end of the process closes the file
		}
		_ = syscall.Close(fd)
	}
	return firstPort
})

// The ports of all processes are below the range of outgoing connections, so that none of them
// takes a port before its program does.
const (
	firstPort  = 20_000
	portCount  = 2_000 // of one process
	portRanges = 5
)

// freePort returns a port without a listener, and each port only once.
func freePort() (int, error) {
	first, count := ownPorts(), portCount
	for range 200 {
		port := first + rand.IntN(count)
		if _, taken := assigned.LoadOrStore(port, true); taken {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			assigned.Delete(port)
			continue
		}
		return port, l.Close()
	}
	return 0, fmt.Errorf("no free port between %d and %d", first, first+count)
}

// eventually calls check until it returns nil, for at most startTimeout, or until p
// has exited.
func eventually(p *Program, check func() error) error {
	deadline := time.After(startTimeout)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s exited (%w) before it answered:\n%s", p.Name, p.endedWith(), p.Log())
		case <-deadline:
			return fmt.Errorf("%s has not answered after %v: %w\n%s", p.Name, startTimeout, err, p.Log())
		case <-tick.C:
		}
	}
}

// Start starts any program that serves on an address, and waits until it accepts
// connections there.
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

// PreferSamplePorts makes programs started from now on listen on the ports of their
// samples and defaults, where these are free.
func (s *Stage) PreferSamplePorts() { s.prefersSamplePorts = true }

// samplePort returns the port of a sample if it is preferred and free, otherwise 0.
func (s *Stage) samplePort(port int) int {
	if !s.prefersSamplePorts {
		return 0
	}
	l, err := net.Listen("tcp", local(port))
	if err != nil || l.Close() != nil {
		return 0
	}
	return port
}

// choosePort returns the port of a sample if it is preferred and free, otherwise another
// free port.
func (s *Stage) choosePort(preferred int) (int, error) {
	if port := s.samplePort(preferred); port != 0 {
		return port, nil
	}
	return freePort()
}

// local returns a loopback address.
func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// FreeAddress returns a loopback address without a listener.
func FreeAddress() (string, error) {
	port, err := freePort()
	return local(port), err
}

// Script starts a script of the module that serves on the addresses in the
// variables GRPC, HTTP and ADMIN, which Script sets to free ones.
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

// ReplaceFile replaces a file in one step, so that no instance reads a part of it.
func ReplaceFile(path, text string) error {
	next := path + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}
