package storetest

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// process is the redis-server that a Server or a Node stands for.
type process struct {
	t   testing.TB
	cmd *exec.Cmd // nil while there is none
}

// Kill ends it at once, as a crash does.
func (p *process) Kill() {
	if p.cmd != nil {
		// The errors say that it is gone already, or that it was killed.
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}

// Pause makes it hang: it takes connections and answers nothing.
func (p *process) Pause() { p.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (p *process) Resume() { p.signal(syscall.SIGCONT) }

func (p *process) signal(signal os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
}
