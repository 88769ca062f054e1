package storetest

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// process is the redis-server process of a Server or a Node.
type process struct {
	t   testing.TB
	cmd *exec.Cmd // nil while none runs
}

// Kill ends the process at once, as a crash does.
func (p *process) Kill() {
	if p.cmd != nil {
		// The errors only report that it had ended, or was killed.
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}

// Pause makes the process hang: it accepts connections and does not answer.
func (p *process) Pause() { p.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (p *process) Resume() { p.signal(syscall.SIGCONT) }

func (p *process) signal(signal os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
}
