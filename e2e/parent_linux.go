package e2e

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// apart starts a program in a group of its own, which ^C in a terminal does not
// reach: Close ends programs in their order. If its parent is gone, the kernel
// ends it: a test that is killed leaves nothing running.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// stopped waits until every thread of a child has stopped: on a busy machine
// some still run when SIGSTOP is sent, and answer.
func stopped(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EINTR):
			return fmt.Errorf("waiting for process %d to stop: %w", pid, err)
		}
	}
}
