package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Program is a running program.
type Program struct {
	Name    string
	cmd     *exec.Cmd
	logFile string
	ended   chan struct{} // closed when the program has exited
	err     error         // result of Wait; read it only after ended is closed
}

// start starts a program with its output in a separate file.
func (s *Stage) start(name, path string, env []string, args ...string) (*Program, error) {
	p := &Program{Name: name, logFile: s.fileName("%s-%d.log", name, len(s.programs)), ended: make(chan struct{})}
	log, err := os.Create(p.logFile)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the program has its own descriptor
	p.cmd = exec.Command(path, args...)
	p.cmd.Dir = s.dir
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = ownGroup()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	s.programs = append(s.programs, p)
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// PID returns the process ID, for measurements.
func (p *Program) PID() int { return p.cmd.Process.Pid }

// Log returns the program's output so far.
func (p *Program) Log() string {
	text, err := os.ReadFile(p.logFile)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Signal sends the program a signal.
func (p *Program) Signal(signal os.Signal) error {
	err := p.cmd.Process.Signal(signal)
	if err == nil && signal == syscall.SIGSTOP {
		return stopped(p.cmd.Process.Pid)
	}
	return err
}

// Ended reports whether the program exits within a time.
func (p *Program) Ended(within time.Duration) bool {
	select {
	case <-p.ended:
		return true
	case <-time.After(within):
		return false
	}
}

// ExitCode returns the exit status of a program that has exited.
func (p *Program) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// Stop ends the program with SIGTERM or, if that takes too long, SIGKILL. It
// returns an error if the program had to be killed or found a data race.
func (p *Program) Stop() error {
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping %s: %w", p.Name, err)
	}
	if !p.Ended(stopTimeout) {
		kill := p.Kill()
		return fmt.Errorf("%s was still running %v after SIGTERM (%w)", p.Name, stopTimeout, errors.Join(kill, errKilled))
	}
	if strings.Contains(p.Log(), "WARNING: DATA RACE") {
		return fmt.Errorf("%s found a data race:\n%s", p.Name, p.Log())
	}
	return nil
}

var errKilled = errors.New("killed")

// Kill ends the program at once, like a crash, and waits for its exit.
func (p *Program) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.ended
	return nil
}

// endedWith returns the exit status of a program that has exited, as an error.
func (p *Program) endedWith() error {
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}
